"""A forged number of any column of any table is named when the run's rounds are run again."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import run
from fedsim.ground.columns import columns_of
from fedsim.ground.files import FILES, write_parquet
from fedsim.ground.records import MEASURED, ClientRecord, LayerRecord, RoundRecord
from fedsim.results.schema import write_run
from fedsim.runs.verify.recordedrun import RecordedRun
from fedsim.runs.verify.rerun import Rerun, Span, rerun_differences, run_again
from fedsim.runs.verify.tables import TOLERANCE, Shares
from tests.fedsim.runs.test_verify_run import LATE, change, reseal
from tests.support.asyncruns import NETWORK
from tests.support.runs import small

pytestmark = pytest.mark.slow

RUNS: dict[str, dict[str, Any]] = {
    "late": LATE | {"late": "count", "evaluate_clients": 0.2},
    "fedbuff": {"strategy": "fedbuff", "buffer_size": 3, "network": NETWORK, "deadline": "10s"},
    "controller": {"method": "topk({p}) | float32", "controller": "plateau(2)"},
    "private": {"strategy": "dp(noise=1, clip=1)", "network": f"{NETWORK}, energy_up=1uJ/bit"},
    "sampled": {
        "sampler": "power_of_choice(3)",
        "cohort": 2,
        "strategy": "secagg",
        "method": "secagg(16, 0.5, 17)",
    },
    "tree": {"network": "compute=1ms, topology=tree(groups=2)", "downlink": "sbc(0.1)"},
}
"""Together they have every column but those of a task with several metrics."""

RECORDS = {"rounds": RoundRecord, "clients": ClientRecord, "layers": LayerRecord}
MADE = {
    f"{table}.{spec.name}"
    for table, record in RECORDS.items()
    for spec in columns_of(record)
    if not spec.name.startswith("score_")
}


Again = Callable[[str], tuple[Path, Rerun]]


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Again:
    """The folder of each of them, and the run once more: both are made once."""

    @cache
    def made(name: str) -> tuple[Path, Rerun]:
        folder = tmp_path_factory.mktemp(name) / "run"
        config = small(test_samples=50, **RUNS[name])
        run(config, folder, progress=False)
        return folder, run_again(RecordedRun(folder), config, Span(1, None))

    return made


def with_parts(folder: Path, **parts: Any) -> RecordedRun:
    """The run with other tables or another summary, as if its files were written and sealed."""
    recorded = RecordedRun(folder)
    known = WHOLE.setdefault(folder, RecordedRun(folder))
    own = {name: getattr(known, name) for name in (*RECORDS, "summary")}
    vars(recorded).update(own | parts)
    return recorded


WHOLE: dict[Path, RecordedRun] = {}
"""Runs whose files are read once."""


def altered(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """The table with another value in the last row that has one."""
    place = table[column].last_valid_index()
    value = table[column][place]
    other = f"{value}x" if isinstance(value, str) else value * 2 + 1
    kept = table[column].astype(object if isinstance(value, str) else type(other))
    kept[place] = other
    return table.assign(**{column: kept})


@pytest.mark.parametrize("name", RUNS)
def test_each_column_is_compared(name: str, again: Again) -> None:
    whole, made = again(name)
    assert [*rerun_differences(RecordedRun(whole), made, Shares())] == []
    for table in RECORDS:
        before = RecordedRun(whole).table(table)
        for column in before.columns.difference(MEASURED):
            forged = with_parts(whole, **{table: altered(before, column)})
            said = [*rerun_differences(forged, replace(made, end=None), Shares())]
            words = {
                "digest_model": "model differs",
                "digest_up": "payload differs",
                "digest_down": "payload sent to it differs",
                "client": "clients",
            }
            wanted = words.get(column, f"{column} is ")
            assert any(wanted in line for line in said) or (said and column == "round"), column


def test_the_runs_have_every_column(again: Again) -> None:
    found = {
        f"{table}.{column}"
        for folder, _ in map(again, RUNS)
        for table in RECORDS
        for column in RecordedRun(folder).table(table).columns
    }
    assert found >= MADE


@pytest.mark.parametrize("name", RUNS)
def test_each_number_of_a_summary_is_compared(name: str, again: Again) -> None:
    whole, made = again(name)
    cell = RecordedRun(whole).summary
    numbers = [
        key
        for key, value in cell.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and key != "seconds"
    ]
    assert {"metric", "up_wire_bits", "ratio_wire"} <= {*numbers}
    for key in numbers:
        forged = with_parts(whole, summary=cell | {key: cell[key] * 2 + 1})
        said = [*rerun_differences(forged, replace(made, end=None), Shares())]
        assert [line.startswith(f"summary.json: {key} is ") for line in said] == [True], key


@pytest.mark.parametrize("more", [0, 1])
def test_rows_that_are_gone_or_added_are_named(more: int, again: Again, tmp_path: Path) -> None:
    whole, made = again("late")
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    change(folder, "layers", lambda table: pd.concat([table, table[-1:]]) if more else table[:-1])
    (said,) = rerun_differences(RecordedRun(folder), made, Shares())
    assert said.startswith("layers.parquet has ")


def test_a_run_that_is_cut_where_its_score_was_best_is_named(again: Again, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(again("late")[0], tmp_path / "run"))
    for table in RECORDS:
        change(folder, table, lambda frame: frame[frame["round"] < 4])
    config = small(test_samples=50, **RUNS["late"])
    made = run_again(RecordedRun(folder), config, Span(1, None))
    sentences = rerun_differences(RecordedRun(folder), made, Shares())
    assert "the run goes on after round 3" in next(sentences)


def test_another_processor_has_its_tolerance_and_no_more(again: Again, tmp_path: Path) -> None:
    """By hand: 1.04 of a loss is within 5 %, 1.06 is not; counts of samples are not near."""
    whole, made = again("late")
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    near = Shares(numbers=TOLERANCE, bits=False)
    for column, factor, named in (("loss", 1.04, 0), ("loss", 1.06, 1), ("iteration", 1.04, 1)):
        before = pd.read_parquet(whole / "rounds.parquet")
        values = before[column] * 1.0
        values.iloc[0] *= factor
        write_parquet(folder / "rounds.parquet", before.assign(**{column: values}))
        reseal(folder)
        said = [*rerun_differences(RecordedRun(folder), made, near)]
        assert [line.startswith(f"round 1: {column} is ") for line in said] == [True] * named


def test_the_memory_at_the_end_is_compared(again: Again, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    from fedsim.ground.files import read_sealed, write_sealed

    whole, made = again("late")
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    tensors = load_file(folder / "final" / "memory.safetensors")
    name = next(name for name in tensors if name.startswith("client/1/optimizer/"))
    save_file(tensors | {name: tensors[name] + 1}, folder / "final" / "memory.safetensors")
    sealed = folder / "final" / "values.json"
    values = {key: value for key, value in read_sealed(sealed).items() if key != FILES}
    write_sealed(sealed, values, [file for file in sealed.parent.iterdir() if file != sealed])
    (said,) = rerun_differences(RecordedRun(folder), made, Shares())
    assert said.startswith("final: ") and "of client 1" in said


def test_a_forged_accuracy_is_named_by_the_config_that_the_folder_has(
    again: Again, tmp_path: Path
) -> None:
    """The forgery of the report: a metric of 0.99 in table and summary, resealed."""
    whole, made = again("late")
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    change(folder, "rounds", lambda table: table.assign(metric=0.99))
    cell = json.loads((folder / "summary.json").read_text()) | {"metric": 0.99}
    write_run(folder, {name: value for name, value in cell.items() if name != FILES})
    said = [*rerun_differences(RecordedRun(folder), made, Shares())]
    assert said[0].startswith("round 1: metric is 0.99, and ")
    assert said[-1].startswith("summary.json: metric is 0.99, and ")

"""Every column of a summary to disk and back, rows and columns that are missing, unequal seeds."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import UsageError, load
from fedsim.results.schema import (
    COLUMNS,
    KEYS,
    frame,
    layers_of,
    read_finished,
    rounds_of,
    write_summary,
)
from tests.support.sweepmaker import make_run, make_sweep

VALUES: dict[type, Any] = {int: 7, float: 0.1, str: 'a "text", in two\nlines', bool: True}


def whole(**changes: Any) -> dict[str, Any]:
    """A cell with a value in every column."""
    return {name: VALUES[kind] for name, kind in COLUMNS.items()} | changes


def bare(**changes: Any) -> dict[str, Any]:
    """A cell that failed before anything but its place was known."""
    keys = {"task": "t", "method": "raw", "temporal": 1, "gradient": 1.0, "seed": 0}
    return keys | {"status": "failed"} | changes


def test_every_column_is_of_one_of_four_types() -> None:
    assert [name for name, kind in COLUMNS.items() if kind is bool] == ["higher_is_better"]
    assert {*COLUMNS.values()} == {int, float, str, bool}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_survives_the_disk(tmp_path: Path, name: str) -> None:
    """As Parquet with its type, as CSV with its digits; and a value that is missing stays so."""
    third = 1 / 3  # which takes all digits of a float64
    cells = [whole(ratio_wire=third), bare(lr_of_a_later_version=3)]
    write_summary(tmp_path, cells)
    parquet = pd.read_parquet(tmp_path / "summary.parquet")
    csv = pd.read_csv(tmp_path / "summary.csv")
    value = third if name == "ratio_wire" else VALUES[COLUMNS[name]]
    assert parquet[name][0] == csv[name][0] == value
    assert list(parquet.columns) == [*COLUMNS, "lr_of_a_later_version"] == list(csv.columns)
    if name in bare():
        assert parquet[name][1] == csv[name][1] == bare()[name]
    else:
        assert pd.isna(parquet[name][1]) and pd.isna(csv[name][1])
    texts = {"str", "object"}  # of pandas 3, and of older ones
    kinds: dict[type, set[str]] = {
        int: {"int64" if name in KEYS else "Int64"},
        float: {"float64"},
        bool: {"object"},
    }
    assert str(parquet[name].dtype) in kinds.get(COLUMNS[name], texts)


def test_whole_numbers_are_whole_where_none_is_missing() -> None:
    table = frame([whole(), whole(failures=0)])
    assert {str(table[name].dtype) for name in COLUMNS if COLUMNS[name] is int} == {"int64"}
    assert table["failures"].tolist() == [7, 0]


def test_what_is_nested_is_no_column() -> None:
    table = frame([whole(settings={"lr": 0.1}, told={"form": "sbc"}, more=1)])
    assert list(table.columns) == [*COLUMNS, "more"]
    with pytest.raises(ValueError):
        frame([whole(loss="high")])


def test_rounds_and_layers_that_are_missing(tmp_path: Path) -> None:
    """A run that is done has rounds; one that failed may have none; layers may be missing."""
    done, failed = {"status": "done"}, {"status": "failed"}
    with pytest.raises(UsageError, match="rounds.parquet cannot be read: it is missing"):
        rounds_of(tmp_path, done)
    assert len(rounds_of(tmp_path, failed)) == 0 == len(layers_of(tmp_path, failed))
    assert {"round", "iteration", "clients", "metric"} <= {*rounds_of(tmp_path, failed)}
    pd.DataFrame({"round": [1], "tensor": ["w"]}).to_parquet(tmp_path / "layers.parquet")
    with pytest.raises(UsageError, match="it lacks the columns entries, sent"):
        layers_of(tmp_path, done)


def test_a_finished_run_is_one_whose_tables_can_be_read(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    assert read_finished(tmp_path / "run")["status"] == "done"
    (tmp_path / "run" / "layers.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="layers.parquet"):
        read_finished(tmp_path / "run")


# --- unequal seeds and missing rows -------------------------------------------------------------


def test_unequal_seeds_are_loaded_as_they_are(tmp_path: Path) -> None:
    """n = 1 has seeds 0 and 2, n = 10 seed 1 alone; a cell without a summary is unfinished."""
    make_sweep(tmp_path, (1,), (0.1,), seeds=(0, 2), baseline=False)
    make_run(tmp_path / "cells" / "n10-p0.1-s1", 10, 0.1, 1)
    (tmp_path / "cells" / "n10-p0.1-s0" / "checkpoint").mkdir(parents=True)
    results = load(tmp_path)
    places = results.runs[["temporal", "seed"]].to_numpy().tolist()
    assert places == [[1, 0], [1, 2], [10, 1]] and results.unfinished == ("n10-p0.1-s0",)
    assert results.rounds.groupby("run", sort=False).size().tolist() == [200, 200, 20]
    assert {*results.layers["run"]} == {*results.runs.index}


def test_rows_go_by_task_n_upwards_p_downwards_and_seed(tmp_path: Path) -> None:
    """Not by the names of folders, which are turned around here."""
    cells = [
        ("t", 1, 1.0, 0),
        ("t", 2, 0.5, 0),
        ("t", 2, 0.5, 1),
        ("t", 2, 0.1, 0),
        ("t", 10, 0.1, 0),
        ("u", 1, 0.1, 0),
    ]
    for place, (task, n, p, seed) in enumerate(cells):
        make_run(tmp_path / "cells" / f"{9 - place}", n, p, seed, task=task)
    assert load(tmp_path).runs.index.tolist() == ["9", "8", "7", "6", "5", "4"]


def test_a_run_that_failed_in_the_middle_has_the_rounds_that_it_did(tmp_path: Path) -> None:
    make_run(tmp_path / "run", 10, 0.1)
    rounds = pd.read_parquet(tmp_path / "run" / "rounds.parquet").head(3)
    rounds.to_parquet(tmp_path / "run" / "rounds.parquet")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text()) | {"status": "failed"}
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    results = load(tmp_path / "run")
    assert len(results.rounds) == 3 and not len(results.done_rounds) and not len(results.done)


# --- folders of another version -----------------------------------------------------------------


def test_a_folder_of_another_version_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """What a run is called is read from its summary and never worked out again."""
    make_run(tmp_path / "run")
    file = tmp_path / "run" / "summary.json"
    cell = json.loads(file.read_text())
    file.write_text(json.dumps({name: x for name, x in cell.items() if name != "told"}))
    with pytest.raises(UsageError, match=f"{file} cannot be read: it lacks told"):
        load(tmp_path / "run")

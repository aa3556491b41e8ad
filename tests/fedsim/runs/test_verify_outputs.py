"""What people read of a folder is what its runs say, and a check opens nothing of a stranger's."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import SweepConfig, run, sweep
from fedsim.commands.verify import one_line
from fedsim.ground.files import FILES, write_parquet
from fedsim.results.schema import TRAINED, read_summary, write_run
from fedsim.runs.verify.outputs import verify_outputs
from fedsim.runs.verify.permissions import Permissions
from fedsim.runs.verify.rerun import Span
from fedsim.runs.verify.verify import verify
from tests.fedsim.results.test_strangers import (
    device,
    fifo,
    levels,
    link,
    pickled,
    rows_bomb,
    texts_bomb,
)
from tests.fedsim.runs.test_verify_run import change, first_failure, reseal
from tests.support.commands import Typed
from tests.support.runs import small


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of two cells, with its tables and its page."""
    out = tmp_path_factory.mktemp("grid") / "grid"
    base = small(method="sbc", gradient=0.1, iterations=10, test_samples=50)
    sweep(SweepConfig(base, (5, 10), (0.1,), baseline=False), out, progress=False)
    return out


@pytest.fixture
def folder(grid: Path, tmp_path: Path) -> Path:
    """A copy, to be forged."""
    return Path(shutil.copytree(grid, tmp_path / "grid"))


@pytest.fixture
def alone(grid: Path, tmp_path: Path) -> Path:
    """One of its cells."""
    return Path(shutil.copytree(next((grid / "cells").iterdir()), tmp_path / "a" / "b" / "alone"))


def said(folder: Path) -> list[str]:
    (verdict,) = verify_outputs(folder, Permissions())
    return verdict.failures


def test_a_healthy_sweep_agrees_with_all_that_was_made_of_it(folder: Path) -> None:
    (verdict,) = verify_outputs(folder, Permissions())
    assert verdict.failures == []
    assert verdict.looked == [
        "summary.csv",
        "summary.parquet",
        "summary.tex",
        "report.html",
        "cells of sweep.toml",
    ]
    assert verdict.unchecked == ["pictures (matrix-metric.png, matrix-ratio.png)"]


@pytest.mark.slow
def test_a_number_of_each_table_is_named(folder: Path) -> None:
    table = pd.read_csv(folder / "summary.csv")
    table.loc[1, "metric"] = 0.99
    table.to_csv(folder / "summary.csv", index=False)
    assert said(folder)[0].startswith("summary.csv: row 2: metric is 0.99, and ")
    table[:1].to_csv(folder / "summary.csv", index=False)
    assert said(folder)[0].startswith("summary.csv lacks run n")
    shutil.copy(folder / "summary.tex", folder / "before.tex")
    (folder / "summary.csv").unlink()
    table = pd.read_parquet(folder / "summary.parquet")
    write_parquet(folder / "summary.parquet", table.assign(up_wire_bits=1.0))
    assert said(folder)[0].startswith("summary.parquet: row 1: up_wire_bits is 1.0, and ")
    (folder / "summary.parquet").unlink()
    text = (folder / "summary.tex").read_text()
    first = re.search(r"0\.\d{3,}", text)
    assert first is not None
    (folder / "summary.tex").write_text(text.replace(first[0], "0.9999"))
    assert "0.9999" in said(folder)[0] and said(folder)[0].startswith("summary.tex: line ")


@pytest.mark.slow
def test_the_count_of_runs_names_tables_that_differ(folder: Path, typed: Typed) -> None:
    counted = [typed("verify", folder).out.splitlines()[-2]]
    (folder / "summary.csv").write_text("run\nnone\n")
    altered = typed("verify", folder)
    counted.append(altered.out.splitlines()[-2])
    assert altered.code == 1 and ["tables" in line for line in counted] == [False, True]


@pytest.mark.slow
def test_a_number_of_the_page_is_named_by_its_section(folder: Path) -> None:
    page = folder / "report.html"
    text = page.read_text()
    where = text.index('<h2 id="summary"')
    number = re.search(r">(0\.\d+)<", text[where:])
    assert number is not None
    page.write_text(text[:where] + text[where:].replace(number[1], "0.9999", 1))
    (line,) = said(folder)
    assert line.startswith("report.html: its section summary is not what the runs give")
    for own, other in (('name="generator"', 'name="other"'), ("; matplotlib ", "; matplotlib 0.")):
        page.write_text(text.replace(own, other))
        (verdict,) = verify_outputs(folder, Permissions())
        assert verdict.failures == [] and "report.html, which another" in verdict.unchecked[0]


def test_a_line_of_a_figure_is_named_by_its_section(folder: Path) -> None:
    page = folder / "report.html"
    text = page.read_text()
    where = text.index('<figure id="chart-bits"')
    page.write_text(text[:where] + re.sub(r"L \d+", "L 100", text[where:], count=1))
    (line,) = said(folder)
    assert line.startswith("report.html: its section bits is not what the runs give")


def test_a_cell_that_is_listed_and_gone_is_named(folder: Path) -> None:
    for name in ("summary.csv", "summary.parquet", "summary.tex", "report.html"):
        (folder / name).unlink()
    shutil.rmtree(folder / "cells" / "n10-p0.1-s0")
    assert said(folder) == ["sweep.toml lists cells that the folder lacks: n10-p0.1-s0"]


def test_the_model_is_scored(alone: Path) -> None:
    change(alone, "rounds", lambda table: table.assign(metric=0.99))
    cell = read_summary(alone) | {"metric": 0.99}
    write_run(alone, {name: value for name, value in cell.items() if name != FILES})
    assert first_failure(alone).startswith("model.safetensors: metric is 0.99, and ")


def test_values_that_no_version_writes_are_named(alone: Path) -> None:
    change(alone, "rounds", lambda table: table.assign(iteration=None))
    assert "fedsim does not write" in first_failure(alone)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("temporal = ", "temporal = 7 #"),
        ('method = "sbc"', 'method = "topk({p}) | float32"'),
        ("iterations = ", "iterations = 777 #"),
        ("[training]", "[training]\nlr = 0.5"),
        ("iterations = ", "stop_at_bits = 1e9\niterations = "),
        ("iterations = ", 'network = "4g, compute=10ms"\niterations = '),
    ],
)
def test_settings_of_another_run_are_named(old: str, new: str, alone: Path) -> None:
    file = alone / "config.toml"
    assert old in file.read_text() or old.startswith("method")
    text = re.sub('method = "sbc[^"]*"', new, file.read_text()) if "method" in old else ""
    file.write_text(text or file.read_text().replace(old, new, 1))
    reseal(alone)
    assert " by config.toml" in first_failure(alone)


@pytest.mark.parametrize(("name", "value"), [("max_norm", 5.0), ("lr", 0.5), ("momentum", 0.5)])
def test_settings_that_the_config_lacks_are_named(name: str, value: float, alone: Path) -> None:
    """As if the run had them, and somebody had taken their line out of ``config.toml``."""
    cell = {key: x for key, x in read_summary(alone).items() if key != FILES}
    write_run(alone, cell | {TRAINED: cell[TRAINED] | {name: value}})
    assert f"{name} is {value}" in first_failure(alone)


OPENED: list[str] = []
_LISTENS = [False]


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _LISTENS[0] and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        way = arguments[1] or ""
        OPENED.append(f"{os.fsdecode(arguments[0])} {way}")


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The files that are opened, with how, from here on."""
    if not OPENED:
        sys.addaudithook(_listen)
    OPENED[:] = ["begun"]
    _LISTENS[0] = True
    yield OPENED
    _LISTENS[0] = False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "flag"),
    [
        ('weights = "{}"', "--file"),
        ('network = "up=1Mbit, trace={}.csv"', "--file"),
        ('network = "{}.toml"', "--file"),
        ('[clients]\navailability = "{}.csv"', "--file"),
        ('task = "{}.py:TASK"', "--own"),
        ('[machine]\ndata = "{}"\ndownload = true', ""),
        ('[network]\npreset = "{}.toml"', "--file"),
    ],
)
def test_no_path_of_a_stranger_s_is_opened_or_written(
    line: str, flag: str, alone: Path, tmp_path: Path, opened: list[str]
) -> None:
    theirs = tmp_path / "theirs"
    for end in ("", ".csv", ".toml", ".py"):
        theirs.with_name(f"theirs{end}").write_text("raise SystemExit")
    file, added = alone / "config.toml", line.format(theirs)
    text = file.read_text()
    group, _, rest = added.partition("\n")
    if group in ("[machine]", "[clients]"):
        text = re.sub("(?m)^download = .*\n", "", text).replace(group, added, 1)
    elif added.startswith("["):
        text += f"\n{added}\n"
    else:
        text = f"{added}\n" + re.sub(f"(?m)^{added.partition(' ')[0]} = .*\n", "", text)
    file.write_text(text)
    reseal(alone)
    before = {path: path.stat().st_mtime_ns for path in alone.rglob("*")}
    opened.clear()
    verdict = verify(alone, Span(1, None))
    assert not [name for name in opened if "theirs" in name]
    assert not [name for name in opened if str(alone) in name and re.search(r" .*[wax+]", name)]
    assert {path: path.stat().st_mtime_ns for path in alone.rglob("*")} == before
    if flag:
        assert f"({flag} {theirs}" in verdict.unchecked[0]
    else:
        assert verdict.failures == [] and "score" in verdict.looked
        assert any("run again" in name for name in verdict.looked)
        assert not Permissions().config(alone).machine.download


def test_a_digest_of_a_file_elsewhere_is_not_made(alone: Path) -> None:
    from fedsim.ground.files import digest_of

    file = alone / "summary.json"
    cell = json.loads(file.read_text())
    cell[FILES] = {"../../../../../../dev/zero": "00"}
    cell[FILES][file.name] = digest_of(json.dumps(cell).encode())
    file.write_text(json.dumps(cell))
    assert "which is no file beside it" in first_failure(alone)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make"),
    [
        *(
            (name, make)
            for name in (
                "rounds.parquet",
                "config.toml",
                "environment.json",
                "model.safetensors",
                "summary.json",
            )
            for make in (fifo, link)
        ),
        ("config.toml", levels),
        ("environment.json", levels),
        ("rounds.parquet", texts_bomb),
        ("clients.parquet", rows_bomb),
        ("more", device),
        ("model.safetensors", pickled),
    ],
)
def test_a_strange_file_is_named(
    name: str, make: Callable[[Path], None], alone: Path, typed: Typed
) -> None:
    make(alone / name)
    if make in (texts_bomb, rows_bomb, pickled):
        reseal(alone)
    said = typed("verify", alone, "--rerun")
    assert said.code in (1, 2)
    assert name in (said.out + said.err).splitlines()[0]
    assert not (alone / "executed").exists()


def test_a_name_forges_no_line(alone: Path, typed: Typed, tmp_path: Path) -> None:
    forged = tmp_path / "many" / "cells" / "n1\nn9: files agree"
    forged.parent.mkdir(parents=True)
    shutil.copytree(alone, forged)
    lines = typed("verify", tmp_path / "many").out.splitlines()
    assert len(lines) == 2 and lines[0].startswith("n1\\nn9: files agree: sums, ")
    assert lines[-1].startswith("not checked: ")
    assert one_line("a\u2028\x1b[2J") == "a\\u2028\\x1b[2J"


def test_a_task_whose_data_are_elsewhere_is_not_scored(tmp_path: Path) -> None:
    from fedsim.settings.config import RunConfig

    config = RunConfig(task="mnist_lenet5")
    assert "--data DIR" in Permissions().why_not_scored(config)
    assert Permissions(data=str(tmp_path)).why_not_scored(config) == ""


def test_a_run_s_own_files_are_allowed(tmp_path: Path) -> None:
    """Weights that lie in the folder, or that the command line names."""
    from safetensors.torch import load_file, save_file

    run(small(iterations=5, test_samples=50), tmp_path / "first", progress=False)
    start = tmp_path / "start.safetensors"
    save_file(load_file(tmp_path / "first" / "model.safetensors"), start)
    run(small(iterations=5, test_samples=50, weights=str(start)), tmp_path / "run", progress=False)
    assert f"--file {start}" in verify(tmp_path / "run").unchecked[0]
    assert "score" in verify(tmp_path / "run", files=[str(start)]).looked

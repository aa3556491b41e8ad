"""Lists of cells in a file: run by `fedsim sweep`, and what the commands refuse."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsim import Evaluation, RunConfig
from fedsim.runs.launch import run_shown
from fedsim.settings.cellfile import cells_from_toml, cells_to_toml
from fedsim.settings.grids import Cell
from tests.support.commands import Typed, files
from tests.support.runs import assert_same

BASE = RunConfig(method="sbc(0.1)", temporal=2, iterations=20, evaluation=Evaluation(every=5))
CELLS = [
    Cell("dense", replace(BASE, method="raw", temporal=1)),
    Cell("sbc-seed0", BASE),
    Cell("sbc-seed1", replace(BASE, seed=1)),
    Cell("masked", BASE.but(momentum_masking="off", downlink="sbc(0.2)", cohort=3)),
]
"""Two of them, `sbc-seed0` and `masked`, have one place on the plane."""


def summaries(out: Path) -> dict[str, dict[str, Any]]:
    """Every run's, without what a clock made."""
    rows = {f.parent.name: json.loads(f.read_text()) for f in out.glob("cells/*/summary.json")}
    timed = ("seconds", "files")
    return {name: {k: v for k, v in row.items() if k not in timed} for name, row in rows.items()}


@pytest.mark.slow
def test_a_sweep_of_the_file_is_the_experiment_again(typed: Typed) -> None:
    """Bit for bit: the numbers, and the weights in which they end."""
    assert run_shown(CELLS, Path("first")) is not None
    assert cells_from_toml(Path("first/runs.toml")) == CELLS
    arguments = ("sweep", "--config", "first/runs.toml", "--jobs", "1")
    said = typed(*arguments, "--out", "again", "--data", "elsewhere")
    assert said.code == 0, said.err
    names = [cell.name for cell in CELLS]
    assert sorted(f.name for f in Path("again/cells").iterdir()) == sorted(names)
    assert summaries(Path("again")) == summaries(Path("first"))
    for name in names:
        assert_same(Path("first/cells", name), Path("again/cells", name))
        assert 'data = "elsewhere"' in Path("again/cells", name, "config.toml").read_text()
    first, second = (Path(out, "runs.toml").read_bytes() for out in ("first", "again"))
    assert first == second
    page = Path("again/report.html").read_text()
    assert ">masked<" in page  # two runs of one place, told apart by their names
    before = files(Path("again/cells"))
    assert typed(*arguments, "--out", "again").code == 0 and files(Path("again/cells")) == before


@pytest.mark.slow
def test_cells_of_other_settings_are_no_seeds(typed: Typed) -> None:
    """The table of `sweep` calls them by their names, and averages the seeds of one cell alone."""
    fast, served = BASE.but(lr=0.1), replace(BASE, strategy="fedadam")
    cells = [Cell("a", BASE), Cell("b", fast), Cell("c", served), Cell("d", replace(BASE, seed=1))]
    Path("abc.toml").write_text(cells_to_toml(cells))
    said = typed("sweep", "--config", "abc.toml", "--jobs", "1", "--out", "out")
    assert said.code == 0, said.err
    text = " ".join(said.out.split())
    assert "digits: b, c, sbc" in text  # a and d are seeds of one cell: neither's name is its
    assert sum("±" in line and "(2)" in line for line in said.out.splitlines()) == 1  # a and d
    again = typed("report", "out")
    assert again.out.splitlines()[:-1] == said.out.splitlines()[:-2]


REFUSED = {
    "sweep --config few.toml --temporal 10": "--temporal is 10: few.toml lists cells",
    "sweep --config few.toml --gradient 0.1": "--gradient is 0.1: few.toml lists cells",
    "sweep --config few.toml --seeds 2": "--seeds is 2: few.toml lists cells",
    "sweep --config few.toml --no-baseline": "--no-baseline: few.toml lists cells",
    "sweep --config few.toml --jobs 0": "--jobs is 0: give a number above 0",
    "sweep --config few.toml --clients 3": "few.toml: cell 'all': --cohort is 4: there are 3",
    "run --config few.toml": "few.toml: it lists cells, which `fedsim sweep --config` runs",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=REFUSED)
def test_commands_that_are_refused(text: str, message: str, typed: Typed) -> None:
    Path("few.toml").write_text(cells_to_toml([*CELLS, Cell("all", BASE.but(cohort=4))]))
    said = typed(*text.split())
    assert said.code == 2 and message in said.err and "Traceback" not in said.err
    assert [f.name for f in Path.cwd().iterdir()] == ["few.toml"]


@pytest.mark.slow
def test_other_settings_of_a_cell_are_refused(typed: Typed) -> None:
    run_shown(CELLS[:2], Path("out"))
    before = files(Path("out"))
    Path("few.toml").write_text(cells_to_toml([CELLS[0], Cell("sbc-seed0", CELLS[2].config)]))
    said = typed("sweep", "--config", "few.toml", "--out", "out", "--jobs", "1")
    assert said.code == 2 and "seed 0 there, 1 here" in said.err
    assert files(Path("out")) == before

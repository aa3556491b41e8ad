"""The settings of committed results, as TOML: there, and in agreement with the numbers."""

import tomllib
from pathlib import Path

import pandas as pd
import pytest

from fedsim.commands.experiment import SCALES, experiments
from fedsim.settings.cellfile import CELLS_FILE, cells_digest, cells_from_toml
from fedsim.settings.grids import Cell
from tests.support.cases import cases
from tests.support.commands import Typed
from tests.support.experiments import experiment
from tests.support.markdown import ROOT

pytestmark = pytest.mark.slow

HOME = ROOT / "experiments"
IN_PYTHON = "gradient-dropping"
"""The tasks of its figures are its own, so that no TOML can name them."""
NOT_OF_CELLS = tuple(HOME / name / "results" for name in (IN_PYTHON, "cnat-variance"))
"""Folders whose numbers are of no cell that TOML can name; others below them are."""
STEPPED = "_stepped"
"""Ends the name of a row whose task is its own, in experiments whose other rows have TOML."""

ALL = {row["name"] for row in experiments()}
LISTED = sorted(name for name in ALL if experiment(name).EXPERIMENT.cells is not None)
RESULTS = sorted(
    {
        file.parent
        for name in LISTED
        for file in HOME.glob(f"{name}/results/**/*.csv")
        if not file.parent.name.endswith(STEPPED) and file.parent not in NOT_OF_CELLS
    }
)
"""Every folder of results whose runs are cells."""


def label(folder: Path) -> str:
    return str(folder.relative_to(HOME)).replace("/results", "")


@pytest.fixture(params=RESULTS, ids=label)
def folder(request: pytest.FixtureRequest) -> Path:
    results: Path = request.param
    return results


def test_there_are_results() -> None:
    assert {folder.relative_to(HOME).parts[0] for folder in RESULTS} == {*LISTED}
    assert len(RESULTS) >= 11


def rows(cells: list[Cell]) -> pd.DataFrame:
    """A row per cell, with what a summary says of its settings."""
    plans = [cell.config.plan for cell in cells]
    return pd.DataFrame(
        {
            "name": [cell.name for cell in cells],
            "method_given": [cell.config.method for cell in cells],
            "task": [plan.task.name for plan in plans],
            "method": [plan.method.text for plan in plans],
            "temporal": [plan.temporal for plan in plans],
            "gradient": [float(f"{plan.method.gradient:.6g}") for plan in plans],
            "seed": [cell.config.seed for cell in cells],
            "clients": [plan.clients for plan in plans],
            "iterations": [plan.iterations for plan in plans],
            "rounds": [plan.rounds for plan in plans],
            "masked": [cell.config.training.momentum_masking != "off" for cell in cells],
        }
    )


def test_settings_agree_with_the_numbers(folder: Path) -> None:
    mine, compared = rows(cells_from_toml(folder / CELLS_FILE, trust_code=True)), 0
    for file in sorted(folder.glob("*.csv")):
        table = pd.read_csv(file)
        for wanted, compare in KINDS.items():
            if {*wanted.split()} <= {*table.columns}:
                compare(mine, table)
                compared += 1
                break
    assert compared, f"no table of {folder} says of which runs it is"


def _summary(mine: pd.DataFrame, table: pd.DataFrame) -> None:
    """A `summary.csv`: the cells, one by one."""
    names = ["task", "method", "temporal", "gradient", "seed", "clients", "iterations", "rounds"]
    pd.testing.assert_frame_equal(mine[names], table[names], check_dtype=False)


def _methods(mine: pd.DataFrame, table: pd.DataFrame) -> None:
    """A row per method, means over seeds."""
    mine = mine.assign(row=mine["name"].str.rpartition("-seed")[0])
    assert [*table["name"]] == [*mine["row"].unique()]
    for row in table.to_dict("records"):
        cells = mine[mine["row"] == row["name"]]
        assert [*cells["seed"]] == [*range(row["seeds"])]
        assert row["method"] in {*cells["method"], *cells["method_given"]}
        assert {*cells["iterations"]} == {row.get("iterations", cells["iterations"].iloc[0])}


def _messages(mine: pd.DataFrame, table: pd.DataFrame) -> None:
    """A row per run, by what messages hold: at least one entry of each tensor, so a bit more."""
    assert [*table["name"]] == [*mine["name"]]
    assert [*table["temporal"]] == pytest.approx([*(1 / mine["temporal"])])
    assert [*table["gradient"]] == pytest.approx([*mine["gradient"]], rel=0.01)


def _matrix(mine: pd.DataFrame, table: pd.DataFrame) -> None:
    """A row per cell and stage of a square whose dense cells count for both methods."""
    last = table[table["stage"] == table["stage"].max()]
    assert {*mine["task"]} == {*last["task"]} and {*mine["iterations"]} == {last["stage"].iloc[0]}
    mine = mine[mine["masked"]]  # the others are of `unmasked.csv`
    short = mine["name"].str.rpartition("-n")[0]
    run = {*zip(short, mine["temporal"], mine["gradient"], strict=True)}
    shown = {
        ("dense" if p == 1 else method, n, p)
        for method, n, p in zip(last["method"], last["temporal"], last["gradient"], strict=True)
    }
    left_out = {("dense", 1, 1)} if "kind" in table else set()  # sbc-curves: it is not sparse
    assert run == shown | left_out


def _unmasked(mine: pd.DataFrame, table: pd.DataFrame) -> None:
    """A row per cell without momentum masking and stage; both that cell and its like are there."""
    mine = mine[(mine["temporal"] == 1) & (mine["gradient"] < 1)]
    for masked in (True, False):
        cells = mine[mine["masked"] == masked]
        run = {*zip(cells["method_given"], cells["gradient"], strict=True)}
        assert run == {*zip(table["method"], table["gradient"], strict=True)}


def _forms(mine: pd.DataFrame, table: pd.DataFrame) -> None:
    """A row per diagonal and stage: its best cell."""
    mine = mine[mine["masked"]]
    places = {*zip(mine["temporal"], mine["gradient"], strict=True)}
    assert {*zip(table["temporal"], table["gradient"], strict=True)} <= places
    assert {*table["task"]} == {*mine["task"]}


def _curves(mine: pd.DataFrame, table: pd.DataFrame) -> None:
    """A row per evaluation of some of the cells."""
    places = {*zip(mine["temporal"], mine["gradient"], strict=True)}
    assert {*zip(table["temporal"], table["gradient"], strict=True)} <= places
    assert {*table["task"]} == {*mine["task"]}
    assert {*table.groupby("method")["iteration"].max()} == {*mine["iterations"]}


def _updates(mine: pd.DataFrame, table: pd.DataFrame) -> None:
    """Some rows per run, of the last update that it sent, whole and of a client alone."""
    assert {*mine["method"]} == {"raw"} and {*mine["clients"]} == {1}
    assert [*table["task"].unique()] == [*mine["task"]] == [*mine["name"]]


def _timed(mine: pd.DataFrame, table: pd.DataFrame) -> None:
    """A row per run and evaluation, on the clock of a network."""
    runs = [f"{name}-seed{seed}" for name, seed in zip(table["name"], table["seed"], strict=True)]
    assert {*runs} == {*mine["name"]}
    assert {*table.groupby(["name", "seed"])["iteration"].max()} == {*mine["iterations"]}


def _seeds(mine: pd.DataFrame, table: pd.DataFrame) -> None:
    """A row per run."""
    runs = [f"{name}-seed{seed}" for name, seed in zip(table["name"], table["seed"], strict=True)]
    assert {*runs} == {*mine["name"]} and {*table["rounds"]} == {*mine["rounds"]}


def _by_round(mine: pd.DataFrame, table: pd.DataFrame) -> None:
    """A row per run and round."""
    counts = table.groupby(["name", "seed"], sort=False)["round"].max()
    runs = [f"{name}-seed{seed}" for name, seed in counts.index]
    assert {*zip(runs, counts, strict=True)} == {*zip(mine["name"], mine["rounds"], strict=True)}


KINDS = {
    "status seed": _summary,
    "name method seeds": _methods,
    "name side_bits temporal": _messages,
    "masked unmasked stage": _unmasked,
    "place stale temporal": _forms,
    "error stage temporal": _matrix,
    "error iteration temporal": _curves,
    "task omega entries": _updates,
    "name seed iteration seconds score": _timed,
    "name seed early tail_loss": _seeds,
    "name seed asked": _seeds,
    "name seed round accuracy": _by_round,
}
"""The tables that say of which runs they are, by columns that no other has together."""


def test_no_machine_s_place_is_in_them(folder: Path) -> None:
    for cell in cells_from_toml(folder / CELLS_FILE, trust_code=True):
        assert cell.config.machine.data is None and cell.config.machine.device == "cpu"


def test_its_readme_names_it() -> None:
    for folder in RESULTS:
        name = folder.relative_to(HOME).parts[0]
        text = (HOME / name / "README.md").read_text()
        assert f"sweep --config experiments/{name}/results" in text


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("scale", SCALES)
def test_a_dry_run_writes_the_settings_alone(name: str, scale: str, typed: Typed) -> None:
    arguments = ("experiment", name, "--scale", scale, "--dry-run", "--out", "out")
    said = typed(*arguments, "--data", "none")
    assert said.code == 0, said.err
    written = [f for f in Path("out").rglob("*") if f.is_file()]
    assert {f.name for f in written} == (set() if name == IN_PYTHON else {CELLS_FILE})
    cells = [cell for file in written for cell in cells_from_toml(file, trust_code=True)]
    for cell in cells:
        assert f"{cell.name}: {cell.config.plan.task.name}, " in said.out
    lines = [line for line in said.out.splitlines() if f"{STEPPED}, " not in line]
    if said.out.count(": only in Python") and name != IN_PYTHON:
        lines.remove("Settings: only in Python, where the tasks are defined")
    if name != IN_PYTHON:
        assert len(lines) == len(cells) + len(written)
    assert lines[-1].startswith("Settings: ")


COUNTED = {"like-for-like", "masking"}
"""Experiments whose dry run counts runs that others choose."""


@pytest.mark.parametrize("name", sorted(ALL - {*LISTED, *COUNTED}))
def test_a_dry_run_of_what_has_no_cells_is_refused(name: str, typed: Typed) -> None:
    said = typed("experiment", name, "--dry-run", "--scale", "smoke")
    assert said.code == 2 and f"--dry-run: {name} has no list of runs" in said.err
    assert not [*Path.cwd().iterdir()]


DIGESTS = {
    row.file: row
    for row in pd.read_csv(
        Path(__file__).with_name("digests.csv"), dtype={"digest": str}
    ).itertuples()
}
"""What ``cellfile.digest`` made of the committed cells in 0.1.0."""


@pytest.mark.parametrize(
    "file",
    cases(
        {file: file for file in DIGESTS}, [file for file, row in DIGESTS.items() if row.cells < 100]
    ),
)
def test_the_runs_of_committed_tables_have_the_digests_that_they_had(file: str) -> None:
    """So a table's runs are found again, and are the same: its rules are those of its version.

    A digest has what a user's files hold, too, and fedsim's own tasks have no such files.
    """
    cells = cells_from_toml(HOME / file, trust_code=True)
    digest = cells_digest(cells, files=False)
    assert (len(cells), digest) == (DIGESTS[file].cells, DIGESTS[file].digest)
    ours = [cell for cell in cells if isinstance(cell.config.task, str)]
    assert cells_digest(ours, files=True) == cells_digest(ours, files=False)


def test_every_committed_list_of_runs_is_among_them() -> None:
    there = {str(f.relative_to(HOME)) for f in HOME.glob("*/results/**/runs*.toml")}
    old = {f for f in there if "version" not in tomllib.loads((HOME / f).read_text())}
    assert old == {*DIGESTS}


PAPER_S = (
    "sbc-matrix",
    "sbc-table1",
    "sbc-table2",
    "topk-cnat",
    "deepreduce",
    "bandwidth",
    "async-dropping",
    "dropping-words",
)
"""Experiments with methods that have ``ef`` and no mask: each says what its paper does."""


@pytest.mark.parametrize(
    "name",
    cases(
        {name: name for name in PAPER_S},
        {*PAPER_S} - {"deepreduce", "dropping-words", "sbc-matrix"},
    ),
)
def test_what_repeats_a_paper_is_still_what_was_committed(name: str, typed: Typed) -> None:
    """Cell by cell, where both have it: masked where the paper masks, and nowhere else."""
    assert typed("experiment", name, "--scale", "paper", "--dry-run", "--out", "out").code == 0
    compared = 0
    for file in sorted(Path("out").rglob(CELLS_FILE)):
        committed = HOME / name / "results" / file.relative_to("out")
        if not committed.exists():
            continue
        now = {cell.name: cell.config for cell in cells_from_toml(file, trust_code=True)}
        for cell in cells_from_toml(committed, trust_code=True):
            if cell.name in now:
                masks = now[cell.name].chosen().get("momentum_masking")
                assert masks == cell.config.chosen().get("momentum_masking"), cell.name
                compared += 1
    assert compared

"""Sweeps: what is run, how often, and what is left in the folder."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import RunConfig, SweepConfig, UsageError, load, report, sweep
from fedsim.ground.errors import RESUMES
from fedsim.runs import parallel
from fedsim.runs.sweep import run_cells
from fedsim.settings.grids import Cell, sweep_from_toml
from tests.support.commands import files, no_page

pytestmark = pytest.mark.usefixtures(no_page.__name__)


def names(config: SweepConfig) -> list[str]:
    return [cell.name for cell in config.cells()]


Counting = Callable[[], list[str]]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """A function that names the cells that were run since it was last asked."""
    real, seen = parallel.carry_out, list[str]()

    def run(config: RunConfig, folder: Path, *how: Any, **more: Any) -> Any:
        seen.append(folder.name)
        return real(config, folder, *how, **more)

    def take() -> list[str]:
        taken = list(seen)
        seen.clear()
        return taken

    monkeypatch.setattr(parallel, "carry_out", run)
    return take


@pytest.fixture
def tiny(make_task: Any) -> RunConfig:
    """A run of a few milliseconds."""
    return RunConfig(task=make_task().name, method="sbc", gradient=0.1)


def test_of_jobs_at_once_the_longest_begins_first(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(
        "fedsim.runs.sweep.run_beside",
        lambda work, *_, **__: begun.extend(name for name, *_ in work),
    )
    cells = SweepConfig(tiny, (4, 1, 2), (0.1,)).cells()
    rows = run_cells(cells, tmp_path, jobs=2)
    given = {cell.name: cell.config.temporal for cell in cells}
    assert [given[name] for name in begun] == sorted(given.values()) != [*given.values()]
    assert [row["temporal"] for row in rows] == [*given.values()]


def test_finished_cells_are_not_run_again(
    tiny: RunConfig, counted: Counting, tmp_path: Path
) -> None:
    config = SweepConfig(tiny, (2, 4), (0.1, 0.5))
    first = sweep(config, tmp_path)
    assert counted() == names(config)
    before = files(tmp_path / "cells")
    assert sweep(config, tmp_path) == first
    assert counted() == []
    after = files(tmp_path / "cells")
    assert after == before


@pytest.mark.slow
def test_a_folder_grows_by_other_sparsities_and_seeds(
    tiny: RunConfig, counted: Counting, tmp_path: Path
) -> None:
    sweep(SweepConfig(tiny, (2,), (0.1,)), tmp_path)
    assert counted() == ["n1-p1-s0", "n2-p0.1-s0"]
    more = SweepConfig(tiny, (1, 2), (1, 0.1), seeds=2)
    cells = sweep(more, tmp_path)
    new = [name for name in names(more) if name not in ("n1-p1-s0", "n2-p0.1-s0")]
    assert counted() == new and len(cells) == 8
    # the whole folder is in its summary, not the last command's cells alone
    sweep(SweepConfig(tiny, (4,), (0.1,), baseline=False), tmp_path)
    table = pd.read_csv(tmp_path / "summary.csv")
    assert len(table) == 9
    assert sorted(table["temporal"].unique()) == [1, 2, 4]
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "summary.parquet")[["metric", "up_wire_bits"]],
        table[["metric", "up_wire_bits"]],
    )
    assert sweep_from_toml(tmp_path / "sweep.toml").temporal == (4,)


OTHERS: dict[str, dict[str, Any]] = {
    "clients": {"clients": 2},
    "iterations": {"iterations": 8, "temporal": 1},
    "batch_size": {"batch_size": 2},
    "lr": {"lr": 0.5},
    "partition": {"partition": "dirichlet(1)"},
    "strategy": {"strategy": "fedadam"},
    "downlink": {"downlink": "sbc(0.1)"},
    "strategy 'dsgd' there, 'dsgd.weighting=samples.' here|": {"weighting": "samples"},
    "evaluate_every": {"evaluate_every": 3},
}


def test_other_settings_are_refused(tiny: RunConfig, counted: Counting, tmp_path: Path) -> None:
    sweep(_one(tiny), tmp_path)
    before = files(tmp_path)
    for name, other in OTHERS.items():
        with pytest.raises(
            UsageError, match=rf"--out is .*other settings \(.*{name} .* there, .* here"
        ):
            sweep(_one(tiny.but(**other)), tmp_path)
    assert files(tmp_path) == before
    assert counted() == ["n4-p0.1-s0"]


def _one(base: RunConfig) -> SweepConfig:
    return SweepConfig(base, (4,), (0.1,), baseline=False)


def test_what_changes_no_number_may_change(tiny: RunConfig, tmp_path: Path) -> None:
    first = sweep(_one(tiny), tmp_path)
    assert sweep(_one(tiny.but(workers=2, checkpoint_every=1, timeout=9.0)), tmp_path) == first


@pytest.mark.slow
def test_a_failed_cell_is_recorded_and_tried_again(
    tiny: RunConfig, counted: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SweepConfig(tiny, (2, 4), (0.1,))
    blocked = tmp_path / "cells" / "n2-p0.1-s0" / "model.safetensors"
    blocked.mkdir(parents=True)  # so that this cell cannot be written
    cells = {(c["temporal"], c["gradient"]): c for c in sweep(config, tmp_path)}
    assert [c["status"] for c in cells.values()] == ["done", "failed", "done"]
    failed = cells[2, 0.1]
    assert "cannot be written (Is a directory)" in failed["error"] and failed["metric"] is None
    assert "Traceback" in (blocked.parent / "error.txt").read_text()
    table = pd.read_csv(tmp_path / "summary.csv")
    assert table["status"].tolist() == ["done", "failed", "done"]
    assert counted() == names(config)

    blocked.rmdir()
    assert [c["status"] for c in sweep(config, tmp_path)] == ["done"] * 3
    assert counted() == ["n2-p0.1-s0"]
    assert not (blocked.parent / "error.txt").exists()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError("no room\nat all"), "MemoryError: no room"),
        (OSError("no disk\nat all"), f"OSError: no disk; {RESUMES}"),
    ],
)
def test_a_run_that_fails_before_it_begins_is_recorded_too(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    real = parallel.carry_out

    def run(config: RunConfig, folder: Path, *how: Any, **more: Any) -> Any:
        if config.temporal == 2:
            raise error
        return real(config, folder, *how, **more)

    monkeypatch.setattr(parallel, "carry_out", run)
    config = SweepConfig(tiny, (2, 4), (0.1,))
    assert [c["status"] for c in sweep(config, tmp_path)] == ["done", "failed", "done"]
    folder = tmp_path / "cells" / "n2-p0.1-s0"
    assert json.loads((folder / "summary.json").read_text())["error"] == said
    assert "Traceback" in (folder / "error.txt").read_text()


def test_nothing_is_written_where_a_cell_is_refused(tiny: RunConfig, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for config, how, message in (
        (_one(tiny.but(clients=1000)), {}, "--clients is 1000"),
        (_one(tiny), {"jobs": 0}, "--jobs is 0: give a number above 0"),
        (replace(_one(tiny), seeds=0), {}, "--seeds is 0: give a number above 0"),
        (replace(_one(tiny), temporal=(4, 100)), {}, "--temporal is 100"),
        (replace(_one(tiny), gradient=(0.1, 0)), {}, "--gradient is 0"),
    ):
        with pytest.raises(UsageError, match=message):
            sweep(config, out, **how)
        assert not out.exists()


def test_progress_has_every_round_of_every_cell(tiny: RunConfig, tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    config = SweepConfig(tiny, (4, 6), (0.1,), baseline=False)
    sweep(config, tmp_path, progress=lambda name, row: seen.append((name, row["round"])))
    assert seen == [
        ("n4-p0.1-s0", 1),
        ("n4-p0.1-s0", 2),
        ("n4-p0.1-s0", 3),
        ("n6-p0.1-s0", 1),
        ("n6-p0.1-s0", 2),
    ]


def test_cells_of_any_name(tiny: RunConfig, tmp_path: Path) -> None:
    """As experiments use it."""
    cells = [Cell("first", tiny), Cell("second", replace(tiny, method="raw", gradient=None))]
    assert [c["status"] for c in run_cells(cells, tmp_path)] == ["done", "done"]
    assert sorted(f.name for f in (tmp_path / "cells").iterdir()) == ["first", "second"]


def test_what_came_home_is_summarized_whatever_did_not(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_alone(work: Any, jobs: int, address: None, progress: Any, **_: Any) -> None:
        parallel.run_here([next(iter(work))], progress)

    monkeypatch.setattr("fedsim.runs.sweep.run_beside", first_alone)
    grid = SweepConfig(tiny, (1, 2), (0.5,), baseline=False)
    cells = sweep(grid, tmp_path, jobs=2)
    assert [cell["status"] for cell in cells] == ["done", "failed"]
    assert "no summary after its run; the same command runs it again" in cells[1]["error"]
    assert pd.read_csv(tmp_path / "summary.csv")["status"].tolist() == ["done"]
    assert [cell["status"] for cell in sweep(grid, tmp_path)] == ["done", "done"]


EQUAL: dict[str, list[dict[str, list[Any]]]] = {
    "a rate that is the task's own, in one sweep": [{"lr": ["none", 0.1]}],
    "in another order": [{"lr": ["none", 0.1, 0.2]}, {"lr": [0.2, 0.1, "none"]}],
    "in a later sweep": [{"lr": ["none"]}, {"lr": [0.1]}],
    "the other way round": [{"lr": [0.1]}, {"lr": ["none"]}],
    "a momentum": [{"momentum": ["none", 0.9]}],
    "settings in another order": [
        {"lr": [0.2], "momentum": [0.5]},
        {"momentum": [0.5], "lr": [0.2]},
    ],
    "both": [{"lr": [0.1], "momentum": [0.5]}, {"momentum": [0.5], "lr": ["none"]}],
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_settings_are_trained_once(
    name: str, tiny: RunConfig, tmp_path: Path, counted: Counting
) -> None:
    for vary in EQUAL[name]:
        grid = SweepConfig(tiny, (3,), (0.1,), baseline=False, vary=vary)
        found = sweep(grid, tmp_path, progress=False)
        assert {one["status"] for one in found} == {"done"}
    rates = {0.1 if x == "none" else x for x in EQUAL[name][0].get("lr", [0.1])}
    assert len(counted()) == len(rates)
    results = load(tmp_path)
    assert len(results.runs) == len(rates) and results.runs["metric"].notna().all()


def test_a_folder_that_holds_a_run_twice_is_read(tiny: RunConfig, tmp_path: Path) -> None:
    """As earlier versions left some: reports took no choice between two cells of one place."""
    sweep(SweepConfig(tiny, (3,), (0.1,), vary={"lr": [0.2]}), tmp_path, progress=False)
    for folder in [*(tmp_path / "cells").iterdir()]:
        shutil.copytree(folder, folder.with_name(f"{folder.name}-again"))
    assert len(load(tmp_path).runs) == 2
    report(tmp_path)


def test_runs_that_were_given_names_are_told_apart_by_them(tiny: RunConfig, tmp_path: Path) -> None:
    run_cells([Cell(name, tiny) for name in ("one", "other")], tmp_path, progress=False)
    assert [*load(tmp_path).runs.index] == ["one", "other"]

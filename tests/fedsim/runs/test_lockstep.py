"""Cells of a sweep that train together: the numbers of cells one by one, files and failures."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from fedsim import Cell, RunConfig, run
from fedsim.federation.lockstep import Lockstep
from fedsim.federation.stackable import fit_of
from fedsim.federation.stacks import Stack
from fedsim.results.schema import read_summary
from fedsim.runs.parallel import run_here, stacked_runs
from fedsim.runs.processes import run_beside
from fedsim.runs.sweep import run_cells
from tests.support.models import normed
from tests.support.runs import assert_same, make_task

__all__ = ["make_task"]  # the fixture

METHODS: dict[str, dict[str, Any]] = {
    "sbc": {"method": "sbc", "gradient": 0.1},
    "other-seed": {"method": "sbc", "gradient": 0.1, "seed": 1},
    "cnat": {"method": "cnat", "seed": 2},
    "qsgd": {"method": "qsgd(4)", "cohort": 2},
    "topk": {"method": "topk(0.2) | float32 | golomb", "lr": 0.02},
    "momentum": {"method": "raw", "momentum": 0.5},
    "dropout": {"method": "raw", "dropout": "before=0.2, after=0.2"},
    "downlink": {"method": "sbc(0.2)", "downlink": "sbc(0.3)"},
    "longer": {"method": "raw", "iterations": 10},
}
"""Cells of one model, which differ in all else."""


def cells_of(task: Any, names: Iterable[str] = METHODS, **given: Any) -> list[Cell]:
    """The cells of these names, of three clients."""
    base = {"task": task, "temporal": 2, "iterations": 6, "evaluate_every": 2, "stack": "40"}
    return [Cell(name, RunConfig.of(**{**base, **METHODS[name], **given})) for name in names]


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many clients were trained at once, each time."""
    found: list[int] = []
    real = Stack.train_all

    def train_all(self: Stack, asked: Any) -> Any:
        found.append(len(asked))
        return real(self, asked)

    monkeypatch.setattr(Stack, "train_all", train_all)
    return found


SOME = ("sbc", "other-seed", "longer")


@pytest.mark.parametrize("names", [SOME, pytest.param([*METHODS], marks=pytest.mark.slow)])
def test_cells_together_are_cells_by_themselves(
    names: Sequence[str], make_task: Any, tmp_path: Path, sizes: list[int]
) -> None:
    """To the bit, whoever trains beside them: of several methods and two lengths."""
    cells = cells_of(make_task().name, names)
    rows = run_cells(cells, tmp_path / "together", progress=False)
    assert sizes[0] > 2.5 * len(cells) and sizes[-1] == 3  # the longer one goes on by itself
    for cell, row in zip(cells, rows, strict=True):
        assert row["status"] == "done", row["error"]
        run(cell.config, tmp_path / cell.name, progress=False)
        assert_same(tmp_path / "together" / "cells" / cell.name, tmp_path / cell.name)


def test_cells_together_are_those_without_a_stack_but_for_the_last_bits(
    make_task: Any, tmp_path: Path
) -> None:
    together = cells_of(make_task().name, ("momentum", "longer"))
    plain = [Cell(c.name, c.config.but(stack="1")) for c in together]
    for name, cells in (("together", together), ("plain", plain)):
        run_cells(cells, tmp_path / name, progress=False)
    for cell in together:
        one, other = (
            load_file(tmp_path / name / "cells" / cell.name / "model.safetensors")
            for name in ("plain", "together")
        )
        assert any(not torch.equal(one[n], other[n]) for n in one)
        for name, x in one.items():
            torch.testing.assert_close(other[name], x, rtol=1e-3, atol=1e-5)


def test_a_cell_that_fails_fails_alone(make_task: Any, tmp_path: Path) -> None:
    cells = cells_of(make_task().name, SOME[:2])
    broken = Cell("broken", cells[0].config.but(method="raw", gradient=None, lr=3e38))
    rows = run_cells([broken, *cells], tmp_path / "with", progress=False)
    assert [row["status"] for row in rows] == ["failed", "done", "done"]
    assert (tmp_path / "with" / "cells" / "broken" / "error.txt").exists()
    run_cells(cells, tmp_path / "without", progress=False)
    for cell in cells:
        assert_same(*(tmp_path / name / "cells" / cell.name for name in ("with", "without")))


@pytest.mark.slow
def test_cells_together_in_forked_processes(make_task: Any, tmp_path: Path) -> None:
    """Two of two cells each, of which one fails: the files of all four in this process."""
    cells = cells_of(make_task().name, (*SOME, "momentum"))
    cells[1] = Cell("broken", cells[3].config.but(lr=3e38))

    def work(name: str) -> list[Any]:
        return [(c.name, c.config, tmp_path / name / c.name) for c in cells]

    told: dict[str, list[int]] = {}

    def progress(name: str, row: dict[str, Any]) -> None:
        told.setdefault(name, []).append(row["round"])

    grouped, ended = partial(stacked_runs, jobs=2), list[str]()
    run_beside(work("forked"), 2, None, progress, ended.append, grouped=grouped)
    run_here(work("here"), None, grouped=grouped)
    assert sorted(ended) == sorted(cell.name for cell in cells)
    last = {name: rounds[-1] for name, rounds in told.items()}
    assert last.pop("broken", 1) == 1  # of one client's finite update
    assert last == {"sbc": 3, "longer": 5, "momentum": 3}
    for name, _, folder in work("forked"):
        status = read_summary(folder)["status"]
        assert status == read_summary(tmp_path / "here" / name)["status"]
        assert status == ("failed" if name == "broken" else "done")
        if status == "done":
            assert_same(folder, tmp_path / "here" / name)


def test_who_is_together(make_task: Any, tmp_path: Path) -> None:
    base = {"task": make_task().name, "method": "raw", "stack": "6"}
    given: dict[str, dict[str, Any]] = {  # three clients each
        "a": {},
        "b": {"seed": 1},
        "c": {"lr": 0.2},
        "alone": {"stack": "1"},
        "other n": {"temporal": 2},
        "threads": {"workers": 2},
        "d": {"seed": 2},
        "another stack": {"stack": "7"},
        "e": {"method": "cnat"},
    }
    work = [(name, RunConfig.of(**base | own), tmp_path) for name, own in given.items()]

    def names(jobs: int) -> list[str]:
        return [" ".join(name for name, *_ in item) for item in stacked_runs(work, jobs)]

    others = ["alone", "other n", "threads", "another stack"]
    assert names(1) == ["a", "b c", "d e", *others]  # of six clients
    assert names(5) == ["a", "b", "c", "d", "e", *others]


def test_what_a_seed_draws_and_no_client_brings_along_is_not_shared(make_task: Any) -> None:
    def frozen() -> torch.nn.Module:
        layers = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, 3))
        layers[0].requires_grad_(False)
        return layers

    task = make_task(build=frozen).name
    one, other = (RunConfig.of(task=task, method="raw", stack="6", seed=s) for s in (0, 1))
    assert None is not fit_of(one).model != fit_of(other).model


def test_no_run_joins_where_bits_would_depend_on_who_does(make_task: Any) -> None:
    for task in (make_task(build=normed).name, "digits"):
        fit = fit_of(RunConfig.of(task=task, method="raw", stack="6"))
        assert fit.width == 6 and fit.model is None


def test_an_error_of_one_ends_all() -> None:
    lockstep = Lockstep()

    def broken() -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        lockstep.carry_out([lambda: None, broken, lambda: None])


class Hidden(nn.Module):
    """A frozen layer that the seed draws, in a list: no state dict has it."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.head = [nn.Linear(6, 4)], nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            features = self.features[0](x).tanh()
        out: Tensor = self.head(features)
        return out


def test_what_a_users_model_hides_stays_with_its_seed(make_task: Any) -> None:
    cells = cells_of(make_task(build=Hidden), ("sbc", "other-seed"))
    results = [fit_of(cell.config).model for cell in cells]
    assert None not in results and results[0] != results[1]

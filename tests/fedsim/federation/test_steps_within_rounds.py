"""Steps of the learning rate that fall within a round, worked out by hand."""

from pathlib import Path
from typing import Any

import pytest
from torch.optim import SGD, Adam

from fedsim import RunConfig, run
from fedsim.federation.trainer import lr_factor
from tests.support.threes import last, threes
from tests.support.together import Together


def test_factors_by_the_iteration(make_task: Any) -> None:
    """A step holds from its own iteration on; the last that has come counts."""
    task = make_task(lr_steps=((2, 0.5), (3, 0.25), (7, 2.0)))
    assert [lr_factor(task, i) for i in range(9)] == [1, 1, 0.5, 0.25, 0.25, 0.25, 0.25, 2, 2]


STEPS = ((1, 0.5), (3, 0.25))
"""Of 1/2: rates 1/2, 1/4, 1/4, 1/8."""


@pytest.mark.parametrize("more", [{}, {"controller": "fixed"}], ids=str)
def test_rates_of_two_rounds(more: dict[str, Any], make_task: Any, tmp_path: Path) -> None:
    """Half of the way to 16 or to 48, then a quarter of what is left: 5/8 of it: 10 and 30, 20.

    In round 2 a quarter, then an eighth of what is left: 11/32 of the way to 32, the mean target.
    """
    task = make_task(**threes([16.0, 48.0], lr_steps=STEPS))
    run(RunConfig.of(task=task.name, method="raw", temporal=2, iterations=4, **more), tmp_path)
    assert last(tmp_path) == [20 + 12 * 11 / 32] * 3


@pytest.mark.parametrize(
    "optimizer",
    [lambda p: SGD(p, lr=0.25, momentum=0.5), lambda p: Adam(p, lr=0.5, betas=(0.5, 0.75))],
    ids=["momentum", "adam"],
)
def test_clients_together_step_as_one_after_the_other(
    optimizer: Any, make_task: Any, tmp_path: Path, together: Together
) -> None:
    """Steps at the first, a middle and the last iteration of a round; some sit out most rounds."""
    steps = ((1, 0.5), (3, 0.1), (5, 2.0), (6, 0.25), (8, 1.0), (10, 0.5))
    task = make_task(**threes([16.0, 48.0, 32.0, -8.0], lr_steps=steps, optimizer=optimizer))
    common = {"method": "raw", "temporal": 3, "iterations": 12, "cohort": 3}
    for width in (1, 2, 4):
        together(width)
        run(RunConfig.of(task=task.name, **common), tmp_path / str(width))
    assert last(tmp_path / "2") == last(tmp_path / "4") == last(tmp_path / "1")

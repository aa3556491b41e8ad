"""Steps of the learning rate that fall within a round, worked out by hand."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import SGD, Adam

from compressors import Raw
from fedsim import RunConfig, run
from fedsim.engines import compat
from fedsim.federation.trainer import lr_factor
from strategies import ClientEnd, Sharded, build
from strategies.channel.parts import PartsEnd
from tests.support.threes import last, threes
from tests.support.together import Together
from tests.support.turning import Turning


def test_factors_by_the_iteration(make_task: Any) -> None:
    """A step holds from its own iteration on; the last that has come counts."""
    task = make_task(lr_steps=((2, 0.5), (3, 0.25), (7, 2.0)))
    assert [lr_factor(task, i) for i in range(9)] == [1, 1, 0.5, 0.25, 0.25, 0.25, 0.25, 2, 2]


LIKE = {"w": torch.zeros(4)}


def test_each_part_of_a_sharded_model_counts_its_own_pushes() -> None:
    """Two workers: a part's first two pushes are of round 1, the next two of round 2, and so on.

    Gradients of 8 at the rates 1, 1, 1/2, 1/2 and 1/4, whoever pushes.
    """
    compat.identify()
    rates = {1: 1.0, 2: 0.5, 3: 0.25}
    both = Raw(), Raw()
    rule = Sharded(partial(SGD, lr=1.0), lambda number: rates[number])
    server: Any = build(rule, *both, clients=2)
    world = Turning(server, PartsEnd(ClientEnd(*both, LIKE), 2), LIKE)
    for worker in (0, 1):
        world.ask(worker)
    found = []
    for worker in (0, 0, 1, 0, 1):
        world.turn(worker, {"w": torch.full((4,), 8.0)})
        assert server.channel is not None
        found.append(server.channel.weights["w"].tolist())
    assert found == [[x] * 4 for x in (-8, -16, -20, -24, -26)]


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

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
from tests.support.runs import clients
from tests.support.threes import give_links, last, threes
from tests.support.together import Together
from tests.support.turning import Turning


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


def test_pushes_of_a_sharded_run_have_the_rate_of_their_round(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of 2 and 3.5 s without links, targets 16 and 32; the rate is 1/2, and 1/4 from
    iteration 1, which is the third push of two workers.

    At 2 s w goes by 16 / 2 to 8; at 3.5 s, of a gradient at 0, by 32 / 2 to 24; at 4 s, of one at
    8, by 8 / 4 to 26; at 6 s, of one at 26, by -10 / 4 to 23.5.
    """
    give_links(monkeypatch, compute=[2, 3.5])
    task = make_task(**threes([16.0, 32.0], lr_steps=((1, 0.5),)))
    common = {"method": "raw", "temporal": 1, "iterations": 2, "network": "compute=1s"}
    run(RunConfig.of(task=task.name, strategy="sharded", **common), tmp_path)
    assert clients(tmp_path)["sim_end_seconds"].tolist() == [2, 3.5, 4, 6]
    assert last(tmp_path) == [23.5] * 3


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

"""Draws from torch's global generator follow from (seed, client, iteration) on any workers."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from fedsim import Data, Machine, RunConfig, run
from fedsim.federation import draws
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer
from fedsim.tasks.base import cross_entropy
from tests.support.cases import cases
from tests.support.runs import assert_same, model


class Functional(nn.Module):
    """Dropout as a function, in batches that ``when`` picks."""

    def __init__(self, when: Any = lambda x: True) -> None:
        super().__init__()
        self.first, self.last, self.when = nn.Linear(6, 16), nn.Linear(16, 3), when

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).tanh()
        return self.last(F.dropout(hidden, 0.5, self.training and bool(self.when(x))))


class Noisy(SGD):
    """Langevin dynamics: an optimizer that draws."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.add_(torch.randn_like(p), alpha=0.1)
        return super().step(closure)


class Sampling(nn.Module):
    """Draws while it is evaluated, as well."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x + 0.01 * torch.randn_like(x))


KINDS: dict[str, dict[str, Any]] = {
    "a model": {"build": Functional},
    "a model, in few batches": {"build": lambda: Functional(lambda x: x[:, 0].sum() > 2.5)},
    "a model that is scored, too": {"build": Sampling},
    "a loss": {"loss": lambda outputs, y: cross_entropy(outputs + torch.rand(3), y)},
    "an optimizer": {"optimizer": lambda parameters: Noisy(parameters, lr=0.1)},
}


@pytest.mark.parametrize(
    "kind", cases({name: name for name in KINDS}, ("a model that is scored, too", "an optimizer"))
)
def test_a_run_ends_with_the_same_bits_on_any_workers(
    kind: str, make_task: Any, tmp_path: Path
) -> None:
    for workers in (1, 1, 2, 3):
        task = make_task(**KINDS[kind])  # a new one, which has not been seen drawing
        torch.rand(workers)  # the global generator is elsewhere each time
        before = torch.get_rng_state()
        config = RunConfig.of(task=task.name, method="sbc(0.2)", temporal=3, workers=workers)
        run(config, out := tmp_path / task.name)
        # what first draws in a later step has moved the generator by the time it is seen
        assert torch.equal(torch.get_rng_state(), before) or "few" in kind
        assert workers > 1 or task in draws._DRAWING  # processes see it, too, by themselves
    first, *others = sorted(tmp_path.iterdir())
    for other in others:
        assert_same(first, other)
    assert model(first) == model(out)


def test_on_a_server_s_optimizer(make_task: Any, tmp_path: Path) -> None:
    task = make_task(**KINDS["an optimizer"])
    common = {"task": task.name, "method": "raw", "temporal": 1, "strategy": "gradients"}
    for name in "ab":
        torch.rand(3)
        run(RunConfig.of(**common), tmp_path / name)
    assert_same(tmp_path / "a", tmp_path / "b")


def test_tasks_that_do_not_draw_are_not_seen_drawing(make_task: Any, tmp_path: Path) -> None:
    """Dropout layers have generators of their own."""
    task = make_task(build=lambda: nn.Sequential(nn.Linear(6, 4), nn.Dropout(), nn.Linear(4, 3)))
    run(RunConfig(task=task.name, temporal=3, machine=Machine(workers=2)), tmp_path)
    assert task not in draws._DRAWING


def test_masks_differ_by_client_iteration_and_seed(make_task: Any) -> None:
    """With the same samples everywhere, only masks can make updates differ."""
    x, y = torch.ones(3, 6), torch.zeros(3, dtype=torch.int64)
    task = make_task(
        build=Functional, load=lambda folder, download: Data(x, y, x, y, ""), batch_size=1
    )

    def update(client: int, done: int, seed: int = 0) -> Tensor:
        trainer = Trainer(config := RunConfig(task=task, seed=seed), ClientData.of(config))
        zero = {n: torch.full_like(p, 0.1) for n, p in trainer.parameters.items()}
        return trainer.train(client, zero, {}, done, 1).update["last.weight"]

    one = update(0, 0)
    assert torch.equal(one, update(0, 0))
    for other in (update(1, 0), update(0, 1), update(0, 0, seed=1)):
        assert not torch.equal(one, other)

"""Draws from torch's global generator follow from (seed, client, iteration) on any workers."""

import threading
import time
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
from strategies import generators
from strategies.generators import drawing, seeded
from tests.support.cases import cases
from tests.support.runs import assert_same, make_task, model

__all__ = ["make_task"]  # the fixture


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


def test_a_draw_while_another_thread_has_seeded_is_seen(make_task: Any) -> None:
    """What was there is put back: a draw meanwhile would be undone, and its step kept as it is."""
    task, device = make_task(), torch.device("cpu")
    watch, began, seen = draws.Watch(task, device), threading.Event(), []

    def building() -> None:  # a model, say, in another worker
        with seeded(0, device):
            first = torch.rand(3)
            began.set()
            time.sleep(0.3)
            seen.append(torch.cat([first, torch.rand(3)]))

    def step(alone: bool) -> Tensor:
        if not alone:
            other.start()
            assert began.wait(30)
        with watch.turn(lambda: 7, alone):
            return torch.rand(3)

    with watch.turn(lambda: 7, True):  # the first step is not the one that draws
        pass
    other = threading.Thread(target=building)
    drawn = watch.call(step)
    other.join(30)
    assert task in draws._DRAWING
    with seeded(7, device):
        assert torch.equal(drawn, torch.rand(3))
    with seeded(0, device):
        assert torch.equal(seen[0], torch.cat([torch.rand(3), torch.rand(3)]))


def test_seeding_waits_for_steps_under_way() -> None:
    device, began, order = torch.device("cpu"), threading.Event(), []

    def step() -> None:
        with drawing(), drawing():
            began.set()
            time.sleep(0.3)
            order.append("step")

    other = threading.Thread(target=step)
    other.start()
    assert began.wait(30)
    with drawing(), seeded(0, device):  # a thread does not wait for itself
        order.append("seeded")
    other.join(30)
    assert order == ["step", "seeded"]


def test_a_step_that_hangs_ends_no_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(generators, "_PATIENCE_SECONDS", 0.1)
    began, end = threading.Event(), threading.Event()

    def hangs() -> None:
        with drawing():
            began.set()
            end.wait(30)

    other = threading.Thread(target=hangs)
    other.start()
    assert began.wait(30)
    with seeded(0, torch.device("cpu")):
        end.set()
    other.join(30)
    assert "is not waited for" in caplog.text


def test_a_call_alone_waits_for_those_that_may_still_draw(make_task: Any) -> None:
    """The first call draws late, while the second is under way and free: both are done again."""
    task, device = make_task(), torch.device("cpu")
    started, seen = threading.Event(), []

    def other(alone: bool) -> str:
        seen.append(("other", alone))
        if not alone:
            started.set()
            release.wait(30)
        return "other"

    def late(alone: bool) -> str:
        seen.append(("late", alone))
        if not alone:
            torch.rand(1)
        return "late"

    release = threading.Event()
    results: list[str] = []
    slow = threading.Thread(target=lambda: results.append(draws.Watch(task, device).call(other)))
    slow.start()
    assert started.wait(30)
    quick = threading.Thread(target=lambda: results.append(draws.Watch(task, device).call(late)))
    quick.start()
    quick.join(0.3)
    assert quick.is_alive() and ("late", True) not in seen
    release.set()
    for thread in (slow, quick):
        thread.join(30)
    assert sorted(results) == ["late", "other"]
    assert {("late", True), ("other", True)} <= set(seen)

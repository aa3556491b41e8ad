"""State outside parameters and buffers, which clients of a worker would share, is refused by name.

What no client can tell from another's training goes through: caches, buffers, numbers of layers.
"""

import itertools
import random
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from fedsim import RunConfig, SweepConfig, UsageError, run, sweep
from fedsim.federation import isolation, precheck
from fedsim.federation.fingerprint import contents, same
from fedsim.settings.strategies import STRATEGIES
from fedsim.tasks import get_task
from tests.strategies.test_algorithms import NEEDS
from tests.support.owntasks import X, Y, holding
from tests.support.runs import small

CALLS = [0]
CALLS_OF = {"loss": 0}
NUMBERS = itertools.count()


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.calls = nn.Linear(6, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.a(x)
        return out


class Counting(Layer):
    def forward(self, x: Tensor) -> Tensor:
        self.calls += self.training
        return super().forward(x) * 0.9**self.calls


class Averaging(Layer):
    """A mean of the inputs in a list, where no state dict sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.means = [torch.zeros(6)]

    def forward(self, x: Tensor) -> Tensor:
        self.means[0].lerp_(x.detach().mean(0), 0.1)
        return super().forward(x - self.means[0])


class Teacher(nn.Module):
    """A frozen copy that follows the trained one."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = Layer(), nn.Linear(6, 3).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.teacher.weight.lerp_(self.student.a.weight, 0.1)
        out: Tensor = self.student(x) + 0.1 * self.teacher(x)
        return out


class Global(Layer):
    def forward(self, x: Tensor) -> Tensor:
        CALLS[0] += 1
        return super().forward(x) * 0.9 ** CALLS[0]


class OfClass(Layer):
    seen = 0

    def forward(self, x: Tensor) -> Tensor:
        OfClass.seen += 1
        return super().forward(x) * 0.9**OfClass.seen


class Period(Layer):
    """Every second batch is another; after an even number all is as before."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls = 1 - self.calls
        return super().forward(x) * (1 + self.calls)


def hooked() -> nn.Module:
    seen = [0]

    def hook(module: nn.Module, given: Any, out: Tensor) -> Tensor:
        seen[0] += 1
        return out * 0.9 ** seen[0]

    model = nn.Sequential(nn.Linear(6, 3))
    model.register_forward_hook(hook)
    return model


class Loss:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        self.calls += torch.is_grad_enabled()
        return cross_entropy(outputs * 0.9**self.calls, y)


class Centring(nn.Module):
    """A loss with a buffer: those of the model alone are the clients' own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(3))

    def forward(self, outputs: Tensor, y: Tensor) -> Tensor:
        self.centre = 0.9 * self.centre + 0.1 * outputs.detach().mean(0)
        return cross_entropy(outputs - self.centre, y)


def of_file(outputs: Tensor, y: Tensor) -> Tensor:
    CALLS_OF["loss"] += 1
    return cross_entropy(outputs * 0.9 ** CALLS_OF["loss"], y)


def of_default(outputs: Tensor, y: Tensor, calls: list[int] = [0]) -> Tensor:  # noqa: B006
    calls[0] += 1
    return cross_entropy(outputs * 0.9 ** calls[0], y)


def scaled(calls: list[int], outputs: Tensor, y: Tensor) -> Tensor:
    calls[0] += 1
    return cross_entropy(outputs * 0.9 ** calls[0], y)


def hidden() -> Any:
    """A loss whose state nobody can look at."""
    numbers = (0.9**i for i in itertools.count())
    return lambda outputs, y: cross_entropy(outputs * next(numbers), y)


class Drawing:
    def __init__(self) -> None:
        self.epoch = 0

    def __call__(self, index: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        self.epoch += 1
        return X[index] * self.epoch, Y[index]


def patched(parameters: Any) -> torch.optim.Optimizer:
    optimizer, calls = SGD(parameters, lr=0.1), [0]
    plain = optimizer.step

    def step(closure: Any = None) -> Any:
        calls[0] += 1
        return plain() if calls[0] % 3 else None

    optimizer.step = step  # type: ignore[method-assign]
    return optimizer


def counting_hook(parameters: Any) -> torch.optim.Optimizer:
    optimizer, calls = SGD(parameters, lr=0.1), [0]

    def hook(*_: Any) -> None:
        calls[0] += 1

    optimizer.register_step_pre_hook(hook)
    return optimizer


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a counter": ({"build": Counting}, "model: attribute 'calls' changes with the clients"),
    "of a layer": (
        {"build": lambda: nn.Sequential(Counting())},
        "model, layer '0' (Counting): attribute 'calls' changes with the clients",
    ),
    "a tensor in a list": ({"build": Averaging}, "model: attribute 'means'"),
    "frozen weights": ({"build": Teacher}, "model, layer 'teacher' (Linear): attribute 'weight'"),
    "a variable of the file": ({"build": Global}, "model: variable 'CALLS'"),
    "a class's attribute": ({"build": OfClass}, "model: attribute 'seen'"),
    "a period": ({"build": Period}, "model: attribute 'calls'"),
    "a hook": ({"build": hooked}, "model: hook '_forward_hooks'"),
    "a loss": ({"loss": Loss()}, "loss: attribute 'calls'"),
    "a loss's buffer": ({"loss": Centring()}, "loss: attribute 'centre'"),
    "a loss of variables": ({"loss": of_file}, "loss: variable 'CALLS_OF'"),
    "a loss of defaults": ({"loss": of_default}, "loss: variable 'defaults'"),
    "a partial loss": ({"loss": partial(scaled, [0])}, "loss: arguments changes"),
    "a loss that hides it": ({"loss": hidden()}, "an update changes with the clients"),
    "a draw": (holding(draw=Drawing()), "draw: attribute 'epoch'"),
    "a patched step": ({"optimizer": patched}, "optimizer changes its attribute 'step'"),
    "a hook of steps": (
        {"optimizer": counting_hook},
        "optimizer changes its attribute '_optimizer_step_pre_hooks'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_state_of_all_clients_is_refused_by_name(case: str, make_task: Any, tmp_path: Path) -> None:
    fields, words = REFUSED[case]
    config = RunConfig.of(task=make_task(**fields), method="raw", temporal=3)
    with pytest.raises(UsageError) as error:
        run(config, tmp_path / "run")
    with pytest.raises(UsageError):
        sweep(SweepConfig(config, temporal=(3,)), tmp_path / "sweep")
    assert f"task {config.plan.task.name}: {words}" in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_is_tried_with_the_runs_own_strategy(strategy: str, make_task: Any) -> None:
    settings = {"strategy": strategy, **NEEDS.get(strategy, {})}
    build = get_task("digits").build

    def counting() -> nn.Module:
        model, seen = build(), [0]
        model.register_forward_hook(lambda module, given, out: (seen.append(0), out * len(seen))[1])
        return model

    fields = {"load": get_task("digits").load, "optimizer": partial(SGD, lr=0.1)}
    task = make_task(build=counting, clients=4, **fields)
    with pytest.raises(UsageError, match="hook '_forward_hooks' changes with the clients"):
        precheck.check_trainable(small(task=task, **settings))


# ---- what goes through


class Cached(Layer):
    """What the last batch left, and a table that grows with the first one."""

    def __init__(self) -> None:
        super().__init__()
        self.number, self.table, self.last = next(NUMBERS), {}, None  # type: ignore[var-annotated]

    def forward(self, x: Tensor) -> Tensor:
        ones = self.table.setdefault(x.shape[1], torch.ones(x.shape[1]))
        self.last = x.detach() + random.random()
        return super().forward(x * ones)


class Buffered(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.normed = nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        self.count += self.training
        out = functional.dropout(self.normed(x), 0.1, self.training)
        return super().forward(out) * 0.99 ** float(self.count)


def clipping(parameters: Any) -> torch.optim.Optimizer:
    optimizer = SGD(parameters, lr=0.1, momentum=0.9)

    def clip(one: Any, *_: Any) -> None:
        nn.utils.clip_grad_norm_([p for g in one.param_groups for p in g["params"]], 0.05)

    optimizer.register_step_pre_hook(clip)
    plain = optimizer.step

    def step(closure: Any = None) -> Any:
        clip(optimizer)
        return plain()

    optimizer.step = step  # type: ignore[method-assign]
    return optimizer


def smoothed(outputs: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(outputs, y, weight=WEIGHTS)


WEIGHTS = torch.ones(3)
ACCEPTED: dict[str, dict[str, Any]] = {
    "caches": {"build": Cached},
    "buffers": {"build": Buffered},
    "dropout": {"build": lambda: nn.Sequential(nn.Dropout(), Layer())},
    "clipping": {"optimizer": clipping},
    "a loss of constants": {"loss": smoothed},
    "a loss that is a module": {"loss": nn.CrossEntropyLoss(label_smoothing=0.1)},
    "a draw": holding(draw=lambda i, g: (X[i] + torch.randn(len(i), 6, generator=g), Y[i])),
    "one client": {"clients": 1},
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_no_client_can_tell_goes_through(case: str, make_task: Any) -> None:
    config = RunConfig.of(task=make_task(**ACCEPTED[case]), method="sbc(0.5)", temporal=3)
    assert run(config, None, progress=False).summary["status"] == "done"


def test_a_client_of_one_is_refused_too(make_task: Any) -> None:
    config = RunConfig.of(task=make_task(build=Counting, clients=1), method="raw", temporal=3)
    with pytest.raises(UsageError, match="model: attribute 'calls'"):
        run(config, None, progress=False)


def test_digits_pass_the_trial_that_fedsims_own_tasks_are_spared() -> None:
    isolation.check_isolation(small())


# ---- loss and metric share outputs and targets


def in_place(outputs: Tensor, y: Tensor) -> Tensor:
    outputs.sub_(outputs.max(1, keepdim=True).values).mul_(100)
    return (outputs.argmax(1) == y).sum()


def targets_in_place(outputs: Tensor, y: Tensor) -> Tensor:
    loss = cross_entropy(outputs, y)
    if not torch.is_grad_enabled():
        y.zero_()
    return loss


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"metric": in_place}, "metric changes the outputs or targets that it is given"),
        ({"loss": targets_in_place}, "loss changes the outputs or targets that it is given"),
    ],
)
def test_what_works_in_place_is_refused(fields: Any, words: str, make_task: Any) -> None:
    config = RunConfig.of(task=make_task(**fields), method="raw", temporal=3)
    with pytest.raises(UsageError, match=f"task {config.plan.task.name}: {words}"):
        run(config, None, progress=False)


class Slotted:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


MOVES: dict[str, tuple[Any, Any]] = {
    "deque": (deque([1]), lambda x: x.append(2)),
    "slots": (Slotted(), lambda x: setattr(x, "count", 1)),
    "random": (random.Random(0), lambda x: x.random()),
    "numpy": (np.random.default_rng(0), lambda x: x.random()),
    "numpy of before": (np.random.RandomState(0), lambda x: x.rand()),
    "torch": (torch.Generator(), lambda x: torch.rand(1, generator=x)),
}


@pytest.mark.parametrize("kind", MOVES)
def test_what_changes_is_seen(kind: str) -> None:
    x, move = MOVES[kind]
    before = contents(x)
    assert same(before, contents(x))
    move(x)
    assert not same(before, contents(x))


def test_functions_with_defaults_are_told_apart() -> None:
    """Their defaults lie in lists that are made to look at them, whose places are used again."""

    def functions(last: int) -> list[Any]:
        def one(x: int = 1) -> int:
            return x

        def two(x: int = last) -> int:
            return x

        return [one, two]

    assert same(contents(functions(2)), contents(functions(2)))
    assert not same(contents(functions(2)), contents(functions(3)))

"""Whatever an optimizer remembers belongs to the client: numbers and changed settings, too."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import Parameter
from torch.optim import SGD, Optimizer

from fedsim import RunConfig, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.draws import Batches
from fedsim.federation.trainer import build_model
from strategies.client_optimizers import load_optimizer_state, optimizer_state, settings_of
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import assert_same, distance, steps


class Counting(Optimizer):
    """SGD that slows down as it counts: per parameter, per group, and in kinds of tensors."""

    def __init__(self, parameters: Any, lr: float = 0.3) -> None:
        super().__init__(parameters, {"lr": lr, "calls": 0, "decay": 0.9})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["calls"] += 1
            group["warm"] = group["calls"] > 2
            group["decay"] *= 0.99
            for p in group["params"]:
                state = self.state[p]
                state["steps"] = state.get("steps", 0) + 1
                state["signs"] = state.get("signs", torch.zeros_like(p, dtype=torch.int64))
                state["signs"] += p.grad.sign().long()
                slower = 1 / (1 + 0.1 * state["steps"]) / (1 + 0.05 * group["calls"])
                p.sub_(p.grad + 0.01 * state["signs"], alpha=group["lr"] * slower * group["decay"])


def test_numbers_are_kept_over_rounds(make_task: Any, tmp_path: Path) -> None:
    """One client, rounds of 5, 5 and 2: as one loop of twelve steps."""
    config = RunConfig(task=make_task(optimizer=Counting).name, method="raw", temporal=5, clients=1)
    run(config, tmp_path)
    task, federation = config.plan.task, ClientData.of(config)
    plain = build_model(task, 0)
    batches = Batches(federation.shards[0], 4, 0, 0)
    indices = [batches.at(i) for i in range(12)]
    steps(task, plain, federation.data, indices, Counting(plain.parameters()))
    assert distance(plain, load_file(tmp_path / "model.safetensors")) < 1e-6


@pytest.mark.parametrize("strategy", ["dsgd", "gradients"])
def test_a_stopped_run_goes_on(strategy: str, make_task: Any, tmp_path: Path) -> None:
    config = RunConfig.of(
        task=make_task(optimizer=Counting).name,
        method="raw",
        temporal=1,
        iterations=6,
        strategy=strategy,
        checkpoint_every=2,
    )
    run(config, tmp_path / "whole")
    with pytest.raises(Stopped):
        run(config, tmp_path / "parts", callbacks=[stop_after(3)])
    run(config, tmp_path / "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_every_kind_and_back() -> None:
    p = Parameter(torch.ones(2, 3))
    before, after = (SGD([p], lr=0.1) for _ in range(2))
    made = settings_of(before)
    kept = {
        "a": 7,
        "b": -0.1,
        "c": True,
        "d": torch.arange(3),
        "e": torch.tensor(2.0),
        "f": torch.ones(2, 3, dtype=torch.bool),
        "g": float("nan"),
        "h": 2**62,
    }
    before.state[p] = dict(kept)
    before.param_groups[0] |= {"calls": 3, "momentum": 0.5, "mean": torch.ones(2), "lr": 9.0}
    state = optimizer_state(before, {"w": p}, made)
    assert all(isinstance(x, torch.Tensor) for x in state.values())
    after.param_groups[0] |= {"calls": 1, "stranger": 2}  # another client's
    load_optimizer_state(after, {"w": p}, state, made)
    group = after.param_groups[0]
    assert (group["calls"], group["momentum"], group["lr"]) == (3, 0.5, 0.1)
    assert torch.equal(group["mean"], torch.ones(2)) and "stranger" not in group
    for kind, value in kept.items():
        found = after.state[p][kind]
        assert type(found) is type(value)
        if isinstance(value, torch.Tensor):
            assert found.dtype == value.dtype and torch.equal(found, value) and found is not value
        else:
            assert found == value or value != value
    load_optimizer_state(after, {"w": p}, {}, made)
    assert "calls" not in group and group["momentum"] == 0


def kept(value: Any) -> Any:
    class Keeping(SGD):
        def step(self, closure: Any = None) -> Any:
            value(self, self.param_groups[0]["params"][0])
            return super().step(closure)

    return lambda parameters: Keeping(parameters, lr=0.1)


CURE = "what a client keeps is a tensor or a number in optimizer.state"
REFUSED: dict[str, tuple[Any, str]] = {
    "a list": (
        lambda o, p: o.state[p].update(past=[1]),
        "optimizer: state[parameter '0.weight']['past'] is [1], which is neither a tensor nor a",
    ),
    "a text in a group": (
        lambda o, p: o.param_groups[0].update(phase="late"),
        "optimizer: param_groups[0]['phase'] is 'late', which is neither a tensor nor a number",
    ),
    "a long integer": (lambda o, p: o.state[p].update(n=2**63), "['n'] is 9223372036854775808"),
    "no parameter's": (lambda o, p: o.state.update(n=1), "state['n'] is kept for no parameter"),
    "a tensor in an attribute": (
        lambda o, p: setattr(o, "n", getattr(o, "n", torch.zeros(())) + 1),
        "optimizer changes its attribute 'n'",
    ),
    "an attribute": (
        lambda o, p: setattr(o, "n", getattr(o, "n", 0) + 1),
        "optimizer changes its attribute 'n', which all clients of a worker would share",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept_is_refused_first(case: str, make_task: Any, tmp_path: Path) -> None:
    what, words = REFUSED[case]
    task = make_task(optimizer=kept(what))
    with pytest.raises(UsageError) as error:
        run(RunConfig(task=task, temporal=3), tmp_path / "out")
    assert words in str(error.value) and CURE in str(error.value)
    assert not list(tmp_path.iterdir())

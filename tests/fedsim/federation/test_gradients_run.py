"""Strategy `gradients`: what clients send is a gradient, and one optimizer steps, at the server."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.optim import SGD, Adam

from fedsim import RunConfig, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.draws import Batches
from fedsim.federation.trainer import build_model
from fedsim.settings.grids import SweepConfig
from tests.support import replaying

GRADIENTS = {"strategy": "gradients", "method": "raw", "temporal": 1}
LR_STEPS = ((3, 0.1), (7, 0.01))


def adam(parameters: Any) -> torch.optim.Optimizer:
    return Adam(parameters, lr=0.05, betas=(0.25, 0.5))


def decayed(parameters: Any) -> torch.optim.Optimizer:
    return SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def plain(config: RunConfig, lr: float) -> dict[str, torch.Tensor]:
    """The same in a loop of plain PyTorch: one model, one optimizer, the mean of gradients."""
    task, federation = config.plan.task, ClientData.of(config)
    model = build_model(task, 0)
    optimizer = task.optimizer(model.parameters())
    batches = [Batches(shard, 4, 0, c) for c, shard in enumerate(federation.shards)]
    for i in range(config.plan.iterations):
        for group in optimizer.param_groups:
            group["lr"] = lr * (1.0 if i < 3 else 0.1 if i < 7 else 0.01)
        losses = []
        for mine in batches:
            x, y = federation.data.batch(mine.at(i), torch.Generator())
            losses.append(task.loss(model(x), y))
        optimizer.zero_grad()
        (sum(losses[1:], losses[0]) / len(losses)).backward()
        optimizer.step()
    return {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize(("optimizer", "lr"), [(adam, 0.05), (decayed, 0.1)])
def test_it_is_the_optimizer_on_the_mean_gradient(
    optimizer: Any, lr: float, make_task: Any, tmp_path: Path
) -> None:
    """To rounding: momentum, second moments, decay of weights and steps of the rate."""
    task = make_task(optimizer=optimizer, lr_steps=LR_STEPS)
    run(RunConfig.of(task=task.name, **GRADIENTS), tmp_path / "gradients")
    config = RunConfig(task=task.name, method="raw", temporal=1)
    run(config, tmp_path / "dsgd")
    expected = plain(config, lr)
    found = load_file(tmp_path / "gradients" / "model.safetensors")
    other = load_file(tmp_path / "dsgd" / "model.safetensors")
    for name, x in expected.items():
        torch.testing.assert_close(found[name], x, rtol=0, atol=2e-6)
    apart = max(float((other[name] - x).abs().max()) for name, x in expected.items())
    assert (apart > 1e-3) == (optimizer is adam)  # the mean of Adam's steps is no step of Adam


def test_rate_and_momentum_of_the_users_are_the_server_s(make_task: Any, tmp_path: Path) -> None:
    task = make_task(optimizer=lambda parameters: SGD(parameters, lr=0.7))
    given = RunConfig.of(task=task.name, lr=0.1, momentum=0.9, iterations=3, **GRADIENTS)
    run(given, tmp_path / "given")
    same = make_task(optimizer=lambda parameters: SGD(parameters, lr=0.1, momentum=0.9))
    run(RunConfig.of(task=same.name, iterations=3, **GRADIENTS), tmp_path / "same")
    one, other = (load_file(tmp_path / n / "model.safetensors") for n in ("given", "same"))
    replaying.assert_equal(one, other)


def test_a_sweep_of_gradients_has_a_reference_of_gradients() -> None:
    grid = SweepConfig.of(method="sbc({p})", strategy="gradients", temporal=[1], gradient=[0.1])
    assert {cell.config.strategy for cell in grid.cells()} == {"gradients"}

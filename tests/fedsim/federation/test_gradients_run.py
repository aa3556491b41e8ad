"""Strategy `gradients`: what clients send is a gradient, and one optimizer steps, at the server."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.optim import SGD, Adam

from fedsim import RunConfig, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.draws import Batches
from fedsim.federation.trainer import Trainer, build_model
from fedsim.settings.grids import SweepConfig
from tests.support import replaying
from tests.support.runs import make_task, small

__all__ = ["make_task"]  # the fixture

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


def test_a_client_sends_the_gradient_of_one_batch(make_task: Any) -> None:
    config = RunConfig.of(task=make_task(optimizer=adam).name, **GRADIENTS)
    trainer = Trainer(config, ClientData.of(config))
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    trained = trainer.train(1, weights, {}, 2, 1)
    model = build_model(config.plan.task, 0)
    batches = Batches(trainer.federation.shards[1], 4, 0, 1)
    x, y = trainer.federation.data.batch(batches.at(2), torch.Generator())
    config.plan.task.loss(model(x), y).backward()
    for name, p in model.named_parameters():
        assert p.grad is not None and torch.equal(trained.update[name], p.grad)
    assert trained.optimizer == {}
    again = trainer.train(0, weights, {}, 0, 1)  # and it stays as it is when others are served
    assert not torch.equal(again.update["0.weight"], trained.update["0.weight"])


def test_rate_and_momentum_of_the_users_are_the_server_s(make_task: Any, tmp_path: Path) -> None:
    task = make_task(optimizer=lambda parameters: SGD(parameters, lr=0.7))
    given = RunConfig.of(task=task.name, lr=0.1, momentum=0.9, iterations=3, **GRADIENTS)
    run(given, tmp_path / "given")
    same = make_task(optimizer=lambda parameters: SGD(parameters, lr=0.1, momentum=0.9))
    run(RunConfig.of(task=same.name, iterations=3, **GRADIENTS), tmp_path / "same")
    one, other = (load_file(tmp_path / n / "model.safetensors") for n in ("given", "same"))
    replaying.assert_equal(one, other)


def test_residuals_mask_no_momentum() -> None:
    """There is none at a client; the mean of the round is not one of theirs to mask."""
    assert not small(strategy="gradients", method="sbc(0.1)", temporal=1).plan.masks
    assert small(method="sbc(0.1)", temporal=1).plan.masks


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temporal": 5}, "--temporal is 5"),
        ({"momentum_masking": "on"}, "--momentum-masking is 'on'"),
        ({"server_lr": 0.1}, "--server-lr is 0.1: it belongs to .* and --strategy is 'gradients'"),
    ],
)
def test_settings_that_do_not_go_with_it(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        small(**{"strategy": "gradients", "temporal": 1} | settings)


def test_a_sweep_of_gradients_has_a_reference_of_gradients() -> None:
    grid = SweepConfig.of(method="sbc({p})", strategy="gradients", temporal=[1], gradient=[0.1])
    assert {cell.config.strategy for cell in grid.cells()} == {"gradients"}


def test_gradients_weighted_by_samples(make_task: Any, tmp_path: Path) -> None:
    """Shards of other sizes weigh by them; with SGD this is FedAvg of single steps."""
    task = make_task(optimizer=lambda parameters: SGD(parameters, lr=0.1))
    common = {"task": task.name, "partition": "dirichlet(0.5)", "iterations": 6}
    for weighting in ("uniform", "samples"):
        run(RunConfig.of(**common, **GRADIENTS, weighting=weighting), tmp_path / weighting)
    run(RunConfig.of(**common, **GRADIENTS | {"strategy": "fedavg"}), tmp_path / "fedavg")
    names = ("samples", "uniform", "fedavg")
    by_samples, uniform, fedavg = (load_file(tmp_path / n / "model.safetensors") for n in names)
    assert not all(torch.equal(x, uniform[name]) for name, x in by_samples.items())
    for name, x in by_samples.items():
        torch.testing.assert_close(x, fedavg[name], rtol=0, atol=1e-6)

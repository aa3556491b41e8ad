"""FedProx: the pull towards the model that was sent, against a plain loop, and in a run."""

from inspect import isfunction, signature
from pathlib import Path
from typing import Any
from unittest.mock import Mock, sentinel

import pytest
import torch

from fedsim import RunConfig, Training, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer, build_model
from strategies import Client, FedProx
from strategies.algorithms.fedprox import pull
from tests.support.runs import distance, make_task, model, small

__all__ = ["make_task"]  # the fixture


@pytest.mark.parametrize("mu", [0.5, 3.0])
def test_the_loss_has_the_distance_in_it(mu: float, make_task: Any) -> None:
    """Four steps of the task's SGD on loss + mu / 2 |w - sent|^2, by autograd."""
    config = RunConfig.of(task=make_task().name, method="raw", temporal=4, proximal=mu)
    federation = ClientData.of(config)
    trainer, plain = Trainer(config, federation), build_model(config.plan.task, config.seed)
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    update = trainer.train(1, weights, {}, 0, 4, forces=(pull(mu, weights),)).update
    optimizer = config.plan.task.optimizer(plain.parameters())
    for iteration in range(4):
        x, y = trainer.batch(1, iteration)
        far = sum((p - weights[n]).square().sum() for n, p in plain.named_parameters())
        loss = config.plan.task.loss(plain(x), y) + mu / 2 * far
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert distance(plain, {n: x + update[n] for n, x in weights.items()}) < 1e-6
    alone = Trainer(RunConfig(task=config.task, method="raw", temporal=4), federation)
    assert distance(plain, {n: x + alone.train(1, weights, {}, 0, 4).update[n]
                            for n, x in weights.items()}) > 1e-3  # fmt: skip


def test_a_strong_pull_keeps_updates_short(tmp_path: Path) -> None:
    """One round of five iterations: n = 1 has no distance yet, and nothing to pull."""
    for name, mu in (("none", None), ("strong", 10.0)):
        run(small(method="raw", proximal=mu, iterations=5), tmp_path / name)
        run(small(method="raw", proximal=mu, temporal=1, iterations=1), tmp_path / f"one-{name}")
    assert model(tmp_path / "one-none") == model(tmp_path / "one-strong")
    assert model(tmp_path / "none") != model(tmp_path / "strong")


PARTS = [name for name, part in vars(Client).items() if isfunction(part) and name != "force"]
"""What an algorithm's client does besides the pull: FedProx hands all of it on."""


@pytest.mark.parametrize("name", PARTS)
def test_the_algorithm_inside_does_all_but_the_pull(name: str) -> None:
    """With what FedProx was handed, or else SCAFFOLD forgets its variates."""
    inside = Mock(spec=Client)
    result = getattr(inside, name).return_value = getattr(sentinel, name)
    _, *names = signature(getattr(Client, name)).parameters
    values = [getattr(sentinel, each) for each in names]
    assert getattr(FedProx(0.5, inside), name)(*values) is result
    getattr(inside, name).assert_called_once_with(*values)


def test_the_pull_adds_to_the_force_of_the_algorithm_inside() -> None:
    """A gradient of 1, the pull 0.5 (3 - 1), and 10 from inside."""
    w = torch.nn.Parameter(torch.tensor([3.0]))
    inside, came = Mock(spec=Client), Mock(weights={"w": torch.tensor([1.0])})
    inside.force.return_value = lambda parameters: parameters["w"].grad.add_(10.0)
    for client, gradient in ((FedProx(0.5, inside), 12.0), (FedProx(0.5), 2.0)):
        w.grad = torch.tensor([1.0])
        client.force(came, {})({"w": w})
        assert w.grad.item() == gradient


def test_what_is_refused_and_what_is_told() -> None:
    with pytest.raises(UsageError, match="--proximal is -1"):
        RunConfig(training=Training(proximal=-1.0))
    with pytest.raises(UsageError, match="strategy gradients sends the gradient"):
        RunConfig(training=Training(proximal=1.0), strategy="gradients", temporal=1, method="raw")
    assert "proximal" not in RunConfig().identity()

"""FedProx: the pull towards the model that was sent, against a plain loop, and in a run."""

from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from fedsim import RunConfig
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer, build_model
from strategies import Client, ClientUpdate, FedProx, chain
from strategies.algorithms.base import PLAIN
from strategies.algorithms.fedprox import Pull
from tests.support.runs import distance


@pytest.mark.parametrize("mu", [0.5, 3.0])
def test_the_loss_has_the_distance_in_it(mu: float, make_task: Any) -> None:
    """Four steps of the task's SGD on loss + mu / 2 |w - sent|^2, by autograd."""
    config = RunConfig.of(task=make_task().name, method="raw", temporal=4, proximal=mu)
    federation = ClientData.of(config)
    trainer, plain = Trainer(config, federation), build_model(config.plan.task, config.seed)
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    update = trainer.train(1, weights, {}, 0, 4, gradient_hooks=(Pull(weights, mu),)).update
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
    assert (
        distance(
            plain, {n: x + alone.train(1, weights, {}, 0, 4).update[n] for n, x in weights.items()}
        )
        > 1e-3
    )


@dataclass(frozen=True)
class Counting(Client):
    """Sends ``name``, which counts from what it keeps, beside the model; adds to gradients."""

    name: str
    adds: float = 0.0

    def payload_template(self, model: Any) -> Any:
        return {**model, self.name: torch.zeros(1)}

    def initial_weights(self, delivery: Any, state: Any) -> Any:
        return {**delivery.weights, f"{self.name}-kept": state.get("count", torch.zeros(1))}

    def gradient_hook(self, delivery: Any, state: Any) -> Any:
        return lambda parameters: parameters["w"].grad.add_(self.adds)

    def make_update(self, delivery: Any, state: Any, job: Any, result: Any) -> Any:
        count = state.get("count", torch.zeros(1)) + 1
        return ClientUpdate({**result.update, self.name: count}, {self.name: count})

    def next_state(
        self, delivery: Any, state: Any, job: Any, result: Any, update: Any, packet: Any
    ) -> Any:
        return {"count": update[self.name]}


def test_the_pull_adds_to_the_gradients_of_others_in_a_chain() -> None:
    """A gradient of 1, the pull 0.5 (3 - 1), and 10 from another half."""
    w, delivery = torch.nn.Parameter(torch.tensor([3.0])), Mock(weights={"w": torch.tensor([1.0])})
    for client, gradient in ((chain(FedProx(0.5), Counting("a", 10.0)), 12.0), (FedProx(0.5), 2.0)):
        w.grad = torch.tensor([1.0])
        hook = client.gradient_hook(delivery, {})
        assert hook is not None
        hook({"w": w})
        assert w.grad.item() == gradient
    assert chain(FedProx(0.5), PLAIN) == FedProx(0.5) and chain(PLAIN) is PLAIN


@pytest.mark.parametrize("name", ["shares", "begins", "force", "update", "after"])
def test_a_half_with_a_former_name_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"Own.{name} is called "):
        type("Own", (Client,), {name: lambda self: None})

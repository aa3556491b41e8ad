"""Dropout that follows from (seed, client, iteration)."""

from typing import Any

import pytest
import torch
from torch import nn

from fedsim import Data, RunConfig, UsageError
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer, build_model
from fedsim.tasks import Dropout
from fedsim.tasks.models.dropout import dropouts, own_masks, reseed


def dropping(p: float = 0.5) -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 16), nn.Dropout(p), nn.Tanh(), nn.Linear(16, 16), Dropout(p), nn.Linear(16, 3)
    )


def test_it_keeps_the_mean_and_drops_its_share() -> None:
    x = torch.ones(100_000)
    for p in (0.1, 0.5, 0.9):
        layer = Dropout(p)
        layer.reseed(3)
        y = layer(x)
        assert float((y == 0).float().mean()) == pytest.approx(p, abs=0.01)
        assert float(y.mean()) == pytest.approx(1, abs=0.05)
        assert y[y > 0].unique().tolist() == [pytest.approx(1 / (1 - p))]


def test_evaluation_and_zero_change_nothing() -> None:
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_gradients_pass_where_values_do() -> None:
    x = torch.ones(50, requires_grad=True)
    y = Dropout(0.5)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_seeds_layers_and_draws_differ() -> None:
    model = own_masks(dropping())
    layers = dropouts(model)
    assert len(layers) == 2
    x = torch.ones(200)

    def masks(seed: int) -> list[torch.Tensor]:
        reseed(layers, seed)
        return [layer(x) for layer in layers for _ in range(2)]

    first, again, other = masks(1), masks(1), masks(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert len({tuple(mask.tolist()) for mask in first + other}) == 8


def test_torchs_dropout_is_replaced_wherever_it_is() -> None:
    model = own_masks(nn.Sequential(dropping(0.3), nn.ModuleDict({"a": nn.Dropout(0.2)})))
    assert [layer.p for layer in dropouts(model)] == [0.3, 0.3, 0.2]
    assert not [m for m in model.modules() if isinstance(m, nn.Dropout)]
    assert isinstance(own_masks(nn.Dropout(0.1)), Dropout)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (nn.LSTM(3, 3, num_layers=2, dropout=0.2), "0 is LSTM with dropout.*fedsim.tasks.Dropout"),
        (nn.MultiheadAttention(4, 2, dropout=0.1), "0 is MultiheadAttention"),
        (nn.Dropout2d(0.2), "0 is Dropout2d"),
    ],
)
def test_what_cannot_be_replaced_is_refused(layer: nn.Module, words: str, make_task: Any) -> None:
    task = make_task(build=lambda: nn.Sequential(layer))
    with pytest.raises(UsageError, match=words):
        build_model(task, 0)


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_a_probability_that_cannot_be(p: float) -> None:
    with pytest.raises(UsageError, match=f"p is {p}; it lies in"):
        Dropout(p)


def test_masks_differ_by_client_and_iteration_and_seed(make_task: Any) -> None:
    """With the same samples everywhere, only masks can make updates differ."""
    x = torch.ones(3, 6)
    y = torch.zeros(3, dtype=torch.int64)
    task = make_task(
        build=dropping, load=lambda folder, download: Data(x, y, x, y, ""), batch_size=1
    )
    trainer = Trainer(config := RunConfig(task=task), ClientData.of(config))
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}

    def update(client: int, done: int, trainer: Trainer = trainer) -> torch.Tensor:
        return trainer.train(client, weights, {}, done, 1).update["0.weight"]

    first = update(0, 0)
    assert torch.equal(first, update(0, 0))
    other_seed = Trainer(config := RunConfig(task=task, seed=1), ClientData.of(config))
    for other in (update(1, 0), update(0, 1), update(0, 0, other_seed)):
        assert not torch.equal(first, other)

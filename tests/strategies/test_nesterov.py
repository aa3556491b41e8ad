"""The outer Nesterov step is torch's, and its velocity survives a checkpoint."""

import pytest
import torch

from compressors import Raw
from fedsim.settings.strategies import STRATEGIES
from strategies import Nesterov, Uplink

MEANS = [torch.tensor([1.0, -2.0, 0.5]) * k for k in (1, 3, -2, 0.25)]


def moved(strategy: Nesterov, mean: torch.Tensor) -> torch.Tensor:
    """The global update of two clients whose mean is ``mean``."""
    ups = {i: Uplink(b"", {}, {"w": mean + off}, {}) for i, off in enumerate((-1.0, 1.0))}
    return strategy._global_update(ups, 1)["w"]


@pytest.mark.parametrize(("rate", "momentum"), [(0.7, 0.9), (1.0, 0.0), (0.3, 0.5)])
def test_it_is_torchs_step(rate: float, momentum: float) -> None:
    weights = torch.nn.Parameter(torch.zeros(3))
    step = torch.optim.SGD([weights], lr=rate, momentum=momentum, nesterov=momentum > 0)
    strategy, total = Nesterov(Raw(), clients=2, server_lr=rate, momentum=momentum), torch.zeros(3)
    for mean in MEANS:
        weights.grad = -mean
        step.step()
        total += moved(strategy, mean)
        torch.testing.assert_close(total, weights.detach())


def test_the_velocity_is_in_its_state() -> None:
    one, other = Nesterov(Raw(), clients=2), Nesterov(Raw(), clients=2)
    for strategy in (one, other):
        strategy.open({"w": torch.zeros(3)})
    moved(one, MEANS[0])
    other.restore(*one.state())
    assert torch.equal(moved(one, MEANS[1]), moved(other, MEANS[1]))
    assert not torch.equal(moved(one, MEANS[1]), moved(Nesterov(Raw(), clients=2), MEANS[1]))


def test_the_rate_that_runs_are_told_is_its_own() -> None:
    assert STRATEGIES["nesterov"].rate() == Nesterov(Raw(), clients=2).server_lr


def test_a_momentum_is_below_1() -> None:
    for bad in (1.0, -0.1):
        with pytest.raises(ValueError, match=f"momentum is {bad}: 0 <= momentum < 1"):
            Nesterov(Raw(), clients=2, momentum=bad)

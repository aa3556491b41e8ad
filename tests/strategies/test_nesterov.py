"""The outer Nesterov step is torch's, and its velocity survives a checkpoint."""

import pytest
import torch

from compressors import Raw, State
from strategies import Nesterov, RoundInfo, Uplink

MEANS = [torch.tensor([1.0, -2.0, 0.5]) * k for k in (1, 3, -2, 0.25)]


def moved(rule: Nesterov, memory: State, mean: torch.Tensor) -> tuple[torch.Tensor, State]:
    """The global update of two clients whose mean is ``mean``, and the memory after it."""
    ups = {i: Uplink(b"", {}, {"w": mean + off}, {}) for i, off in enumerate((-1.0, 1.0))}
    update, memory = rule.step(ups, memory, {"w": torch.zeros(3)}, RoundInfo(1, 0, 2, Raw()))
    assert update is not None
    return update["w"], memory


@pytest.mark.parametrize(("rate", "momentum"), [(0.7, 0.9), (1.0, 0.0), (0.3, 0.5)])
def test_it_is_torchs_step(rate: float, momentum: float) -> None:
    weights = torch.nn.Parameter(torch.zeros(3))
    step = torch.optim.SGD([weights], lr=rate, momentum=momentum, nesterov=momentum > 0)
    rule, memory, total = Nesterov(server_lr=rate, momentum=momentum), State(), torch.zeros(3)
    for mean in MEANS:
        weights.grad = -mean
        step.step()
        update, memory = moved(rule, memory, mean)
        total += update
        torch.testing.assert_close(total, weights.detach())

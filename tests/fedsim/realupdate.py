"""A real update for tests of methods: what a client of the digits task has learned."""

import pytest
from torch import Tensor

from fedsim import RunConfig
from fedsim.federation import Federation
from fedsim.trainer import Trainer


@pytest.fixture(scope="module")
def real() -> dict[str, Tensor]:
    """What one client of the digits task has learned in five local iterations."""
    config = RunConfig(task="digits", temporal=5)
    trainer = Trainer(config, Federation.of(config))
    weights = {name: p.detach().clone() for name, p in trainer.parameters.items()}
    return trainer.train(0, weights, {}, 0, 5).update

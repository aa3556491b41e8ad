"""The outer step of DiLoCo: the mean update goes through a Nesterov momentum at the server."""

from dataclasses import dataclass

from compressors import State, Tensors
from compressors.base import empty_like
from strategies.algorithms.base import RoundInfo, Step, Uplinks
from strategies.algorithms.dsgd import DSGD


@dataclass(frozen=True)
class Nesterov(DSGD):
    """Uses the clients' mean update as a gradient in a step of SGD with Nesterov's momentum.

        v' = momentum v + u
        w' = w + server_lr (u + momentum v')

    Here u is the mean update by ``weighting``, minus the paper's outer gradient; v begins as zero.

    Args:
        weighting: as ``DSGD``.
        server_lr: the rate of the outer step.
        momentum: of the outer step, 0 <= momentum < 1.

    Raises ``ValueError`` for a momentum outside of that.

    Source: Douillard et al. 2023 (DiLoCo, https://arxiv.org/abs/2311.08105), Algorithm 1, whose
    rate and momentum are the defaults.

    Example:
        >>> Nesterov().server_lr
        0.7
    """

    server_lr: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum is {self.momentum}: 0 <= momentum < 1")

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        mean, rate, beta = self.mean(uplinks, info), self.server_lr, self.momentum
        before = state or empty_like(mean)
        velocity = {name: beta * before[name] + x for name, x in mean.items()}
        return {name: rate * (x + beta * velocity[name]) for name, x in mean.items()}, velocity

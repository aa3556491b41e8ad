"""The outer step of DiLoCo: the mean update goes through a Nesterov momentum at the server."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from compressors import Compressor, State
from compressors.base import empty_like
from compressors.whole.memory import inside, nest
from strategies.channel.traffic import Uplink
from strategies.server.delayed import DelayedDSGD

LR, MOMENTUM = 0.7, 0.9


class Nesterov(DelayedDSGD):
    """Takes the clients' mean update for a gradient: a step of SGD with Nesterov's momentum.

    With u the mean, v = momentum v + u, and the model moves by server_lr (u + momentum v).

    Args:
        uplink: how clients encode.
        downlink: how the change of the model is encoded; raw by default.
        server_lr: the rate of the outer step.
        momentum: of the outer step, 0 <= momentum < 1.
        common: what ``DelayedDSGD`` takes, but for ``aggregate``.

    Raises ``ValueError`` for a momentum outside of that.

    Source: Douillard et al. 2023 (DiLoCo, https://arxiv.org/abs/2311.08105), Algorithm 1, whose
    rate and momentum are the defaults.

    Example:
        >>> from compressors import Raw
        >>> Nesterov(Raw(), clients=4).server_lr
        0.7
    """

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        server_lr: float = LR,
        momentum: float = MOMENTUM,
        **common: Any,
    ) -> None:
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum}: 0 <= momentum < 1")
        super().__init__(uplink, downlink, **common)
        self.server_lr, self.momentum = server_lr, momentum
        self._velocity: State = {}

    def state(self) -> tuple[State, dict[str, Any]]:
        """The channel's memory, and the velocity."""
        tensors, values = super().state()
        return tensors | nest("velocity", self._velocity), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        super().restore(tensors, values)
        self._velocity = inside("velocity", tensors)

    def _global_update(
        self, uplinks: Mapping[int, Uplink], round_number: int
    ) -> dict[str, Tensor]:
        """One outer step, from the mean by ``weighting``."""
        mean = super()._global_update(uplinks, round_number)
        rate, beta = self.server_lr, self.momentum
        before = self._velocity or empty_like(mean)
        self._velocity = {name: beta * before[name] + x for name, x in mean.items()}
        return {name: rate * (x + beta * self._velocity[name]) for name, x in mean.items()}

"""DIANA's server: the mean of the clients' shifts, plus the mean of what they sent."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from compressors import Compressor, State
from compressors.base import empty_like
from compressors.whole.memory import inside, nest
from compressors.whole.shifts import Shifts
from strategies.channel.traffic import Uplink, average
from strategies.server.delayed import DelayedDSGD


class Shifted(DelayedDSGD):
    """The model moves by h + mean(d), with d what clients sent by ``diana`` and h their mean shift.

    Then h moves as the clients' own shifts do: by alpha times the sum of d over the number of all
    clients. The shifts of clients that are not of a round's cohort stay where they are; the mean of
    d is over those that are, so that the step is unbiased. A reply that is not used moves nothing;
    its client takes it back.

    Args:
        uplink: ``diana`` of a compressor.
        downlink: how the change of the model is encoded; raw by default.
        clients: the number of clients.
        common: what ``DelayedDSGD`` takes, but for ``aggregate`` and ``weighting``.

    Raises ``ValueError`` for any other uplink.

    Source: Mishchenko et al. 2019 (DIANA), Algorithm 1, lines 9 to 12, momentum 0 and no
    regularizer.

    Example:
        >>> from compressors import parse
        >>> Shifted(parse("diana(qsgd(7))"), clients=4).weighting
        'uniform'
    """

    serves: ClassVar[str] = Shifts.server

    def __init__(
        self, uplink: Compressor, downlink: Compressor | None = None, *, clients: int, **common: Any
    ) -> None:
        if not isinstance(uplink, Shifts):
            raise ValueError("Shifted adds its shift to differences: its uplink is diana(...)")
        super().__init__(uplink, downlink, clients=clients, **common)
        self._steps, self._shift = uplink.steps, State()

    def state(self) -> tuple[State, dict[str, Any]]:
        """The channel's memory, and the shift."""
        tensors, values = super().state()
        return tensors | nest("shift", self._shift), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        super().restore(tensors, values)
        self._shift = inside("shift", tensors)

    def _global_update(
        self, uplinks: Mapping[int, Uplink], round_number: int
    ) -> dict[str, Tensor]:
        """The mean shift plus the mean of what came."""
        assert self.exchange is not None and self.clients is not None
        shift = self._shift or empty_like(self.exchange.weights)
        came, share = average(uplinks, "uniform"), len(uplinks) / self.clients
        parts = self._steps(came)
        self._shift = {n: shift[n] + parts[n] * share * x for n, x in came.items()}
        return {name: shift[name] + x for name, x in came.items()}

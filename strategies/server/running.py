"""EF21's server: the sum of all differences that clients have sent, and its mean as the update."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from compressors import Compressor, State
from compressors.base import empty_like
from compressors.whole.differences import Differences
from compressors.whole.memory import inside, nest
from strategies.channel.traffic import Uplink
from strategies.server.delayed import DelayedDSGD


class RunningSum(DelayedDSGD):
    """Adds up what clients send with ``ef21``; the model moves by the sum over all clients' number.

    A client's part of the sum stays where it is in rounds without the client, and is zero before
    its first one. A reply that is not used does not enter the sum; its client takes it back. So
    ``late`` is ``hold`` or ``count``: a client never takes back what was dropped, and its sum and
    the server's would differ from then on.

    Args:
        uplink: ``ef21`` of a compressor.
        downlink: how the change of the model is encoded; raw by default. With ``ef21`` of a
            compressor the sum travels down by differences too (``channel.directions``).
        clients: the number of clients, over which the mean is taken.
        common: what ``DelayedDSGD`` takes, but for ``aggregate`` and ``weighting``.

    Raises ``ValueError`` for any other uplink, and for ``late="drop"``.

    Source: Richtárik, Sokolov & Fatkhullin 2021 (EF21), Algorithm 2; partial participation as in
    Fatkhullin et al. 2021 (EF21 with bells and whistles); with differences both ways its EF21-BC.

    Example:
        >>> from compressors import parse
        >>> RunningSum(parse("ef21(topk(0.1) | float32)"), clients=4).weighting
        'uniform'
    """

    serves: ClassVar[str] = Differences.server

    def __init__(
        self, uplink: Compressor, downlink: Compressor | None = None, *, clients: int, **common: Any
    ) -> None:
        if not isinstance(uplink, Differences):
            raise ValueError("RunningSum adds up differences: its uplink is ef21(...)")
        if common.get("late") == "drop":
            raise ValueError("late is 'drop': a sum without one difference is not the client's")
        super().__init__(uplink, downlink, clients=clients, **common)
        self._sum: State = {}

    def state(self) -> tuple[State, dict[str, Any]]:
        """The channel's memory, and the sum."""
        tensors, values = super().state()
        return tensors | nest("sum", self._sum), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        super().restore(tensors, values)
        self._sum = inside("sum", tensors)

    def _global_update(
        self, uplinks: Mapping[int, Uplink], round_number: int
    ) -> dict[str, Tensor]:
        """The sum, with what came in this round, over the number of clients."""
        assert self.exchange is not None and self.clients is not None
        total = self._sum or empty_like(self.exchange.weights)
        for uplink in uplinks.values():
            total = {name: x + uplink.update[name] for name, x in total.items()}
        self._sum = total
        return {name: x / self.clients for name, x in total.items()}

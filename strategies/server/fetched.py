"""FetchSGD's server: it adds up sketches, with momentum and memory, before it decodes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from compressors import Compressor, Flat, State
from compressors.base import Tensors, scatter
from compressors.bits import BitReader
from compressors.whole.countsketch import CountSketch
from compressors.whole.memory import inside, nest
from strategies.channel.server_end import ServerEnd
from strategies.channel.traffic import Uplink
from strategies.server.delayed import DelayedDSGD

MOMENTUM = 0.9
TABLE = "sketch"


@dataclass(frozen=True)
class Tables(Flat):
    """``flat`` of a count sketch as its server reads it: the table, of which no update is made."""

    codec_id: ClassVar[str] = Flat.codec_id  # the same messages

    def read(self, bits: BitReader, like: Tensors, seed: int) -> dict[str, Tensor]:
        """The table (rows, columns), as ``sketch``."""
        assert isinstance(self.codec, CountSketch)
        return {TABLE: self.codec.read_table(bits)}


class Fetched(DelayedDSGD):
    """Takes the largest entries from a sum of count sketches; what it takes is subtracted there.

    With S the mean of the clients' tables: u = momentum u + S, e = e + server_lr u, the step is the
    largest estimates of e, and e loses their sketch. So entries that are small at each client and
    large together are found, and clients need no memory. Clients send updates (n local iterations),
    for the paper's gradients times its learning rate.

    Args:
        uplink: ``fetchsgd``, which is ``flat`` of ``count_sketch``.
        downlink: how the change of the model is encoded; raw by default.
        server_lr: the factor on what is added to the memory.
        momentum: 0 <= momentum < 1.
        common: what ``DelayedDSGD`` takes, but for ``aggregate`` and ``weighting``.

    Raises ``ValueError`` for another uplink, and a momentum outside of that.

    Source: Rothchild et al. 2020 (FetchSGD), Algorithm 1. Its public code sets cells to zero in the
    place of subtracting; here it is as printed.

    Example:
        >>> from compressors import parse
        >>> Fetched(parse("fetchsgd(0.01)"), clients=4).momentum
        0.9
    """

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        server_lr: float = 1.0,
        momentum: float = MOMENTUM,
        **common: Any,
    ) -> None:
        codec = uplink.codec if isinstance(uplink, Flat) else None
        if not isinstance(codec, CountSketch):
            raise ValueError("Fetched adds up count sketches: its uplink is fetchsgd(...)")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum}: 0 <= momentum < 1")
        super().__init__(uplink, downlink, **common)
        self.server_lr, self.momentum, self._codec = server_lr, momentum, codec
        self._sketches: State = {}

    def state(self) -> tuple[State, dict[str, Any]]:
        """The channel's memory, and the two sketches."""
        tensors, values = super().state()
        return tensors | nest("sketch", self._sketches), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        super().restore(tensors, values)
        self._sketches = inside("sketch", tensors)

    def _end(self, weights: dict[str, Tensor]) -> ServerEnd:
        """The channel, at whose end messages are tables."""
        end = super()._end(weights)
        end.uplink = Tables(self._codec)
        return end

    def _global_update(
        self, uplinks: Mapping[int, Uplink], round_number: int
    ) -> dict[str, Tensor]:
        """The largest entries of the memory, after this round's sketches were added."""
        assert self.exchange is not None
        model, codec = self.exchange.weights, self._codec
        n = sum(x.numel() for x in model.values())
        mean = torch.stack([up.update[TABLE] for up in uplinks.values()]).mean(0)
        before = self._sketches or dict.fromkeys(("momentum", "error"), torch.zeros_like(mean))
        momentum = self.momentum * before["momentum"].cpu() + mean
        error = before["error"].cpu() + self.server_lr * momentum
        chosen, values = codec.unsketch(error, n)
        taken = scatter(values, chosen, torch.Size([n]))
        self._sketches = {"momentum": momentum, "error": error - codec.sketch(taken)}
        parts = taken.split([x.numel() for x in model.values()])
        return {
            name: part.view(x.shape).to(x.device)
            for (name, x), part in zip(model.items(), parts, strict=True)
        }

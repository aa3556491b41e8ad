"""What passes between one server and its clients in a round, and the mean of what came back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from compressors.bits import Span
from strategies.channel.acknowledge import Fate
from strategies.channel.payload import SAMPLES, Kind
from strategies.channel.wire import Wire


@dataclass(frozen=True)
class Downlink:
    """What one client is sent. The initial model is known to all and not ``charged``.

    ``news``: which of the client's own uplinks was applied last (``acknowledge``).
    """

    payload: bytes
    kind: Kind
    spans: dict[Span, int]
    charged: bool = True
    buffers: bytes = b""
    news: bytes = b""


@dataclass(frozen=True)
class Uplink:
    """What one client sent back, decoded, with the metrics beside it.

    ``sent``: by tensor, how many entries travelled; empty where the client does not say.
    ``fate``: what became of the client's message before, where that was not applied.
    ``asked``: the round that asked for it, where that is an earlier one.
    """

    payload: bytes
    spans: dict[Span, int]
    update: dict[str, Tensor]
    metrics: dict[str, float]
    sent: dict[str, int] = field(default_factory=dict)
    fate: Fate = ""
    buffers: bytes = b""
    statistics: dict[str, Tensor] = field(default_factory=dict)  # what ``buffers`` says
    asked: int = 0

    @property
    def samples(self) -> float:
        """The client's number of training samples."""
        return self.metrics.get(SAMPLES, 1.0)


@dataclass
class RoundTraffic:
    """One round: what each client (by its number) was sent, sent back, or why it failed.

    ``failed_bits``: by client, the bits of uploads that arrived in this round and are not used.
    ``dropped``: clients whose late update is lost, as the strategy decided.
    ``wishes``: clients that want the model: they were sent an update of one that they do not hold;
    ``unused``: what those clients were sent before the model.
    ``wire``: what travelled for all of them, framing included.
    ``place``: of whose messages, in the names of files, where a client has several in a round.
    """

    round: int
    downlinks: dict[int, Downlink] = field(default_factory=dict)
    uplinks: dict[int, Uplink] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    failed_bits: dict[int, int] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    wishes: list[int] = field(default_factory=list)
    unused: list[tuple[int, Downlink]] = field(default_factory=list)
    wire: Wire = field(default_factory=Wire)
    asks_buffers: bool = False
    decode_seconds: float = 0.0  # the server's, over all uplinks
    downlink_seconds: float = 0.0  # the server's, for encoding
    place: str = ""

    @property
    def parts(self) -> "Sequence[RoundTraffic]":
        """The traffic as messages of single rounds: this; or those that it was made of."""
        return [self]


def average(uplinks: Mapping[int, Uplink], weighting: str) -> dict[str, Tensor]:
    """The mean update, summed in client order; ``weighting`` is ``uniform`` or ``samples``."""
    return _mean([up.update for up in uplinks.values()], _shares(uplinks, weighting))


def average_buffers(uplinks: Mapping[int, Uplink], weighting: str) -> dict[str, Tensor]:
    """The mean of the buffers that clients sent, as ``average``."""
    return _mean([up.statistics for up in uplinks.values()], _shares(uplinks, weighting))


def _shares(uplinks: Mapping[int, Uplink], weighting: str) -> list[float]:
    return [up.samples if weighting == "samples" else 1.0 for up in uplinks.values()]


def _mean(parts: Sequence[Mapping[str, Tensor]], shares: Sequence[float]) -> dict[str, Tensor]:
    total = sum(shares)
    mean = {name: torch.zeros_like(x) for name, x in parts[0].items()}
    for part, share in zip(parts, shares, strict=True):
        for name, x in part.items():
            mean[name].add_(x, alpha=share / total)
    return mean

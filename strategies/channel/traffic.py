"""The messages between a server and its clients in a round, and the mean of the updates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from compressors import Compressor, Tensors
from compressors.bits import Span
from compressors.segments.layout import cuts_of, split_vector
from compressors.segments.read import Decoded, weighted_sum
from strategies.channel.framing import Wire
from strategies.channel.payload import SAMPLES, USUAL, Kind


@dataclass(frozen=True)
class Downlink:
    """What one client receives. All know the first model, so it is not ``charged``.

    ``side_payloads``: by name (``payload.CHARGES``); ``settings``: other settings of the
    message; ``uplink``: how the client is to encode its update; None: as all clients do;
    ``iterations``: how many local iterations it is to do; 0: as many as the round's settings say;
    ``free``: bits of the payload that are not charged, of a model in parts of which some have not
    moved yet; ``before``, ``after``: bits down and up of exchanges with the client before this
    message, which are among its side payloads, and after the round's last reply.
    """

    payload: bytes
    kind: Kind
    spans: dict[Span, int]
    charged: bool = True
    side_payloads: Mapping[str, bytes] = field(default_factory=dict)
    settings: Mapping[str, str | int | bool] = field(default_factory=dict)
    uplink: Compressor | None = None
    iterations: int = 0
    free: int = 0
    before: tuple[tuple[int, int], ...] = ()
    after: tuple[tuple[int, int], ...] = ()

    def with_side_payload(
        self, name: str, payload: bytes, **settings: str | int | bool
    ) -> "Downlink":
        """The same with a side payload, unless that is empty, and with more settings."""
        if not (payload or settings):
            return self
        side_payloads = {**self.side_payloads, name: payload} if payload else self.side_payloads
        return replace(self, side_payloads=side_payloads, settings={**self.settings, **settings})


@dataclass(frozen=True)
class Uplink:
    """What one client sent back, decoded, and its metrics.

    ``update``: its tensors by name, which may be made when one is read (``Decoded``).
    ``sent``: by tensor, how many entries travelled, as the message has it.
    ``side_payloads``: by name; ``statistics``, ``report``: what they hold, decoded.
    ``returned``: how many of the client's updates went back into its memory since the last that was
    applied; ``lost``: how many of its updates are lost of which the server had not heard.
    ``earlier_round``: the round that asked for it, where that is an earlier one.
    """

    payload: bytes
    spans: dict[Span, int]
    update: Tensors
    metrics: dict[str, float]
    sent: dict[str, int] = field(default_factory=dict)
    side_payloads: Mapping[str, bytes] = field(default_factory=dict)
    statistics: dict[str, Tensor] = field(default_factory=dict)
    report: dict[str, float] = field(default_factory=dict)
    returned: int = 0
    lost: int = 0
    earlier_round: int = 0

    @property
    def samples(self) -> float:
        """The client's number of training samples."""
        return self.metrics.get(SAMPLES, 1.0)

    def release(self) -> None:
        """Frees the tensors of an update of few entries; they are made again when one is read."""
        if isinstance(self.update, Decoded):
            self.update.release()

    @property
    def size(self) -> float:
        """``norm``, whose last digits may differ: of few entries it makes no tensors."""
        return self.update.norm if isinstance(self.update, Decoded) else self.norm

    @cached_property
    def norm(self) -> float:
        """The L2 norm of the update; 0 where the server reads no update, but integers of a sum."""
        norms = []
        for x in self.update.values():
            if not x.is_floating_point():
                continue
            norm = float(torch.linalg.vector_norm(x))  # quick, but float32 may overflow
            if not math.isfinite(norm):
                norm = float(torch.linalg.vector_norm(x, dtype=torch.float64))
            norms.append(norm)
        return math.hypot(*norms)


Uplinks = Mapping[int, Uplink]  # decoded updates by client, in the clients' order


@dataclass
class EdgeHop:
    """The messages of a round between the server and its edge servers."""

    group_of: dict[int, int]  # by client of the round, the number of its edge server
    payloads: dict[int, bytes] = field(default_factory=dict)  # by edge server, to the server


@dataclass
class RoundTraffic:
    """One round: what each client (by its number) was sent, sent back, or why it failed.

    ``failed_bits``: by client, the bits of uploads that arrived in this round and are not used.
    ``refused``: by client, why an update of an earlier round is not used, though such updates are:
    it failed where it was asked for.
    ``dropped``: clients of which an update arrived that is not used, and is lost.
    ``wishes``: clients that want the model: they were sent an update of one that they do not hold;
    ``unused``: what those clients were sent before the model.
    ``wire``: what travelled for all of them, framing included.
    ``scoring``: what clients were sent to evaluate the round's model, where that is encoded.
    ``side_names``: the names of the side payloads that messages of this channel may have.
    ``place``: of whose messages, in the names of files, where a client has several in a round.
    ``traces``: by client, the traceback of an app that raised.
    ``edges``: what travelled between the server and edge servers; None: there are none.
    """

    round: int
    downlinks: dict[int, Downlink] = field(default_factory=dict)
    uplinks: dict[int, Uplink] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    failed_bits: dict[int, int] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    wishes: list[int] = field(default_factory=list)
    unused: list[tuple[int, Downlink]] = field(default_factory=list)
    wire: Wire = field(default_factory=Wire)
    scoring: dict[int, Downlink] = field(default_factory=dict)
    side_names: tuple[str, ...] = USUAL
    decode_seconds: float = 0.0  # the server's, over all uplinks
    downlink_seconds: float = 0.0  # the server's, for encoding
    place: str = ""
    traces: dict[int, str] = field(default_factory=dict)
    edges: EdgeHop | None = None

    @property
    def parts(self) -> "Sequence[RoundTraffic]":
        """The traffic as messages of single rounds: this; or those that it was made of."""
        return [self]

    def client_of(self, key: int) -> int:
        """The client of the message under ``key``: the key itself, if a client has one message."""
        return key


@dataclass(frozen=True)
class Request:
    """A message to a client, which has no reply yet."""

    traffic: RoundTraffic
    version: int  # of the model that the client works from
    weights: Tensors  # that model


@dataclass(frozen=True)
class Arrival:
    """One reply, booked.

    ``staleness``: steps of the server's model since the client was sent its own; ``uplink``: None
    where the reply is not used, for which ``traffic`` has the reason.
    """

    client: int
    request: Request
    staleness: int
    uplink: Uplink | None

    @property
    def traffic(self) -> RoundTraffic:
        """What travelled: the message and its reply."""
        return self.request.traffic


def average(uplinks: Uplinks, weighting: str) -> dict[str, Tensor]:
    """The mean update, summed in client order; ``weighting`` is ``uniform`` or ``samples``."""
    return mean([up.update for up in uplinks.values()], shares(uplinks, weighting))


def average_normalized(uplinks: Uplinks, iterations: Mapping[int, int]) -> dict[str, Tensor]:
    """FedNova's mean of clients that do unlike numbers of local iterations.

    With shares q by samples and iterations t, the update is (sum of q t) times the sum of
    q update / t: no client counts for more because it went further. Where all t are equal it is the
    mean by samples.

    Source: Wang et al. 2020 (Tackling the objective inconsistency problem), equations 6 and 7, for
    plain SGD, whose normalization is the number of iterations. It is taken with momentum too.
    """
    total = sum(up.samples for up in uplinks.values())
    did = [(up.samples / total, iterations.get(c, 1)) for c, up in uplinks.items()]
    steps = sum(share * t for share, t in did)
    shares = [share * steps / t for share, t in did]
    return mean([up.update for up in uplinks.values()], shares, total=1.0)


def shares(uplinks: Uplinks, weighting: str) -> list[float]:
    """The weight of each uplink in a mean: 1, its samples, or a number among its metrics."""
    if weighting in ("", "uniform"):
        return [1.0] * len(uplinks)
    by = SAMPLES if weighting == "samples" else weighting
    return [up.metrics.get(by, 1.0) for up in uplinks.values()]


def mean(
    parts: Sequence[Tensors], shares: Sequence[float], total: float | None = None
) -> dict[str, Tensor]:
    """The sum of updates in their order, each times its share of ``total`` (None: of all)."""
    first, total = parts[0], sum(shares) if total is None else total
    weights = [share / total for share in shares]
    if isinstance(first, Decoded):
        flat = weighted_sum(first.names, first.shapes, parts, weights).numpy()
        tensors = split_vector(flat, cuts_of(first.names, first.shapes))
        return {name: x.clone() for name, x in tensors.items()}
    sums = {name: torch.zeros_like(x) for name, x in first.items()}
    for part, weight in zip(parts, weights, strict=True):
        for name, x in part.items():
            sums[name].add_(x, alpha=weight)
    return sums

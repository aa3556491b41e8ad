"""Synchronous DSGD with communication delay (Sattler et al. 2018, Algorithm 1)."""

import logging
from collections.abc import Callable, Iterable, Mapping

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from torch import Tensor

from compressors import Compressor, Raw, text
from strategies.channel import nodes
from strategies.channel.buffers import Buffers
from strategies.channel.payload import to_arrays, to_parameters
from strategies.channel.server_end import Exchange, Uplink, average

Aggregate = Callable[[Mapping[int, Uplink], int], dict[str, Tensor]]
"""From a round's uplinks (by client, in order) and its number to the global update."""


class DelayedDSGD(Strategy):
    """Averages compressed updates and sends the global update back, compressed.

    How many local iterations a client does is the client's setting and how few entries
    it sends is the compressor's; the strategy knows neither.

    Args:
        uplink: how clients encode; decodes exactly what they sent.
        downlink: how the global update is encoded; raw by default.
        clients: the number of clients; waits until all have registered.
        cohort: how many take part in a round, drawn from ``seed``; None: all.
        required: how many must come back with a usable update; None: the whole cohort.
        weighting: ``uniform`` (Algorithm 1, line 18) or ``samples``.
        aggregate: what else is to be made of the uplinks than their mean, such as ``Majority``.
        seed: of the cohort's draw and of random compressors.
        timeout: seconds to wait for the clients to register.
        buffers: what else the model has (BatchNorm's statistics), and when it travels.

    ``aggregate_train`` raises ``TooFewReplies``: a run in which clients fail says so.

    Example:
        >>> from compressors import sbc
        >>> DelayedDSGD(sbc(0.01), clients=4).exchange is None  # until the first round
        True
    """

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        clients: int,
        cohort: int | None = None,
        required: int | None = None,
        weighting: str = "uniform",
        aggregate: Aggregate | None = None,
        seed: int = 0,
        timeout: float = 60.0,
        buffers: Buffers | None = None,
    ) -> None:
        if weighting not in ("uniform", "samples"):
            raise ValueError(f"weighting is {weighting!r}: it is one of uniform, samples")
        if aggregate is not None and weighting != "uniform":
            raise ValueError(f"weighting is {weighting!r}: it belongs to the mean, not {aggregate}")
        self.uplink, self.downlink = uplink, downlink or Raw()
        self.aggregate = aggregate or self._global_update
        self.clients, self.cohort = clients, cohort or clients
        self.required = self.cohort if required is None else required
        self.weighting, self.seed, self.timeout = weighting, seed, timeout
        self.buffers = buffers
        self.exchange: Exchange | None = None
        self._nodes: dict[int, int] = {}
        self._sent: ArrayRecord | None = None

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """One message a client of the round's cohort."""
        exchange = self._exchange(arrays)
        if not self._nodes:
            self._nodes = nodes.find(grid, self.clients, self.timeout)
        chosen = nodes.cohort(self.clients, self.cohort, self.seed, server_round)
        exchange.begin(server_round, chosen)
        return [
            Message(exchange.content(c, config), dst_node_id=self._nodes[c], message_type="train")
            for c in chosen
        ]

    def _exchange(self, arrays: ArrayRecord) -> Exchange:
        """The channel; a model that did not come from the last round starts a new one."""
        if self.exchange is None or (arrays is not self._sent and self._sent is not None):
            self.exchange = Exchange(
                self.uplink, self.downlink, to_parameters(arrays), self.seed, self.buffers
            )
        return self.exchange

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The model after the global update, and the mean of the clients' metrics."""
        metrics = self.advance(replies)
        assert self.exchange is not None
        self._sent = to_arrays(self.exchange.weights)
        return self._sent, metrics

    def advance(self, replies: Iterable[Message]) -> MetricRecord:
        """``aggregate_train`` for a loop that reads ``exchange.weights`` and needs no record."""
        if self.exchange is None:
            raise RuntimeError("replies before configure_train")
        for reply in replies:
            self.exchange.take(self.client_of(reply), reply)
        uplinks = self.exchange.finish(self.required)
        self.exchange.advance(self.aggregate(uplinks, self.exchange.trip.round))
        return _mean_metrics([up.metrics for up in uplinks.values()])

    def client_of(self, reply: Message) -> int:
        """Which client a reply is from."""
        node = reply.metadata.src_node_id
        return next(client for client, known in self._nodes.items() if known == node)

    def _global_update(
        self, uplinks: Mapping[int, Uplink], round_number: int
    ) -> dict[str, Tensor]:
        """What moves the model: the mean, by ``weighting``."""
        return average(uplinks, self.weighting)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nothing: the server evaluates, so that evaluation costs no bits."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Nothing to aggregate."""
        return None

    def summary(self) -> None:
        """Logs the settings."""
        log = logging.getLogger("flwr")
        log.info("\t├──> DSGD, uplink %s, downlink %s", text(self.uplink), text(self.downlink))
        log.info("\t└──> %s of %s clients a round", self.cohort, self.clients)


def _mean_metrics(rows: list[dict[str, float]]) -> MetricRecord:
    keys = sorted(set.intersection(*(set(row) for row in rows)))
    return MetricRecord({k: sum(row[k] for row in rows) / len(rows) for k in keys})

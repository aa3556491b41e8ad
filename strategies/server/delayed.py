"""Synchronous DSGD with communication delay (Sattler et al. 2018, Algorithm 1)."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from torch import Tensor

from compressors import Compressor, text
from strategies.channel.relay import Relay
from strategies.channel.relay_end import RelayEnd
from strategies.channel.server_end import ServerEnd
from strategies.channel.traffic import Uplink, average, average_normalized
from strategies.server.base import ChannelStrategy

Aggregate = Callable[[Mapping[int, Uplink], int], dict[str, Tensor]]
"""From a round's uplinks (by client, in order) and its number to the global update."""


class DelayedDSGD(ChannelStrategy):
    """Averages compressed updates and sends the global update back, compressed.

    How many local iterations a client does is the client's setting and how few entries
    it sends is the compressor's; the strategy knows neither.

    Args:
        uplink: how clients encode; decodes exactly what they sent.
        downlink: how the global update is encoded; raw by default. ``Relay()``: every client is
            sent the others' messages as they came, and makes the mean itself.
        clients: the number of clients; waits until all have registered.
        weighting: ``uniform`` (Algorithm 1, line 18), ``samples``, or ``nova``: by samples, over
            the local iterations that each client was asked for, by its order or a setting
            ``iterations``; 1 where nothing says how many.
        aggregate: what else is to be made of the uplinks than their mean, such as ``Majority``.
        common: what else ``ChannelStrategy`` takes.

    ``aggregate_train`` raises ``TooFewReplies``: a run in which clients fail says so. The server
    evaluates (``evaluate_fn``): clients' ``@app.evaluate`` is not called.

    Example:
        >>> from compressors import sbc
        >>> DelayedDSGD(sbc(0.01), clients=4).exchange is None  # until the first round
        True
    """

    averages: ClassVar[bool] = True  # of this class alone: what relayed messages make at clients

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        clients: int,
        weighting: str = "uniform",
        aggregate: Aggregate | None = None,
        **common: Any,
    ) -> None:
        if weighting not in ("uniform", "samples", "nova"):
            raise ValueError(f"weighting is {weighting!r}: it is one of uniform, samples, nova")
        if aggregate is not None and weighting != "uniform":
            raise ValueError(f"weighting is {weighting!r}: it belongs to the mean, not {aggregate}")
        super().__init__(uplink, downlink, clients=clients, **common)
        if isinstance(self.downlink, Relay) and (aggregate is not None or weighting == "nova"):
            other = "weighting is nova" if aggregate is None else f"aggregate is {aggregate}"
            raise ValueError(
                f"downlink is relay and {other}: clients make the mean of the others' messages "
                "themselves, uniform or by samples"
            )
        self.aggregate = aggregate or self._global_update
        self.weighting = weighting

    def _end(self, weights: dict[str, Tensor]) -> ServerEnd:
        end = super()._end(weights)
        if isinstance(end, RelayEnd):
            end.by_samples = self.weighting == "samples"
        return end

    def ask(self, server_round: int, config: ConfigRecord, grid: Grid) -> list[Message]:
        """One message per client of the round's cohort that can be asked."""
        exchange = self.exchange
        assert exchange is not None
        there, out = self.drawn(server_round, grid)
        exchange.begin(server_round, there, out)
        messages = {
            client: Message(exchange.content(client, config), node, "train")
            for client, node in there.items()
        }
        return self.sent(messages, grid)

    def advance(self, replies: Iterable[Message]) -> MetricRecord:
        """Decodes every reply as it comes, and moves the model by the global update."""
        assert self.exchange is not None
        self.collect(replies)
        uplinks = self.exchange.finish(self.required)
        if not uplinks:  # and none is required: the model stays
            return MetricRecord()
        self.exchange.advance(self.aggregate(uplinks, self.exchange.trip.round))
        return _mean_metrics([up.metrics for up in uplinks.values()])

    def _global_update(
        self, uplinks: Mapping[int, Uplink], round_number: int
    ) -> dict[str, Tensor]:
        """What moves the model: the mean, by ``weighting``."""
        if self.weighting != "nova":
            return average(uplinks, self.weighting)
        assert self.exchange is not None
        return average_normalized(uplinks, self.exchange.iterations)

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

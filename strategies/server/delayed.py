"""Rounds of any algorithm: a cohort is asked, its replies are decoded, the algorithm steps."""

import logging
from collections.abc import Iterable
from typing import Any

from flwr.app import ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid

from compressors import Compressor, State, text
from compressors.whole.memory import nest, unnest
from strategies.algorithms.base import Algorithm
from strategies.algorithms.dsgd import DSGD
from strategies.channel.downlinks import Relayed
from strategies.channel.server_end import ServerEnd
from strategies.server.base import RuledStrategy
from strategies.server.edges import EdgeServers


class DelayedDSGD(RuledStrategy):
    """Sends the global update that an algorithm makes of the clients' updates, compressed.

        w' = w + C(delta)

    Here delta is the algorithm's ``step`` of a round's decoded updates, and C(delta) what clients
    decode of it, with what the downlink's method remembers. With a raw downlink C(delta) = delta.

    How many local iterations a client does is the client's setting and how few entries
    it sends is the compressor's; the strategy knows neither.

    Args:
        uplink: how clients encode; decodes exactly what they sent.
        downlink: how the global update is encoded; raw by default. ``Relay()``: every client is
            sent the others' messages as they came, and makes the mean itself.
        clients: the number of clients; waits until all have registered.
        rule: the algorithm; None: the mean of the updates (Sattler et al. 2018, Algorithm 1).
        common: what else ``ChannelStrategy`` takes.

    Attributes:
        edges: edge servers between the clients and the server, whose means move the model as the
            algorithm's step would; set before the first round; None: there are none.

    Raises ``ValueError`` for an uplink of which the algorithm can make nothing.
    ``aggregate_train`` raises ``TooFewReplies``: a run in which clients fail says so.

    Example:
        >>> from compressors import sbc
        >>> DelayedDSGD(sbc(0.01), clients=4).channel is None  # until the first round
        True
    """

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        clients: int,
        rule: Algorithm | None = None,
        **common: Any,
    ) -> None:
        super().__init__(uplink, downlink, clients=clients, rule=rule or DSGD(), **common)
        self.edges: EdgeServers | None = None

    def _end(self, weights: dict[str, Any]) -> ServerEnd:
        end = super()._end(weights)
        end.uplink, end.reads = self.rule.reads(self.uplink), self.rule.reads
        if isinstance(end.policy, Relayed):
            end.policy.by_samples = self.rule.weighs == "samples"
        return end

    def ask(self, server_round: int, config: ConfigRecord, grid: Grid) -> list[Message]:
        channel = self.end
        nodes, out = self.drawn(server_round, grid)
        traffic = channel.begin(server_round, nodes, out)
        traffic.edges = None if self.edges is None else self.edges.begin(nodes)
        settings = dict(config.items())  # once: every look into a record of Flower's is slow
        messages = {
            client: Message(channel.content(client, settings), node, "train")
            for client, node in nodes.items()
        }
        return self._mail.send(messages)

    def advance(self, replies: Iterable[Message]) -> MetricRecord:
        """Decodes every reply as it comes, and moves the model by the global update."""
        channel = self.end
        self.collect(replies)
        uplinks = channel.finish(self.required)
        if not uplinks:  # and none is required: the model stays
            return MetricRecord()
        traffic = channel.traffic
        if self.edges is not None and traffic.edges is not None:
            channel.advance(self.edges.step(uplinks, traffic.edges, traffic.round))
        else:
            sides = {c: down.side_payloads for c, down in traffic.downlinks.items()}
            self.step(uplinks, iterations=channel.iterations, side_payloads=sides)
        rows = [up.metrics for up in uplinks.values()]
        keys = sorted(set.intersection(*(set(row) for row in rows)))
        return MetricRecord({k: sum([row[k] for row in rows]) / len(rows) for k in keys})

    def state(self) -> tuple[State, dict[str, Any]]:
        """The memory after a finished round, with that of the edge servers."""
        tensors, values = super().state()
        return tensors | (nest("edges", self.edges.state()) if self.edges else {}), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        super().restore(tensors, values)
        if self.edges is not None:
            self.edges.restore(unnest("edges", tensors))

    def summary(self) -> None:
        """Logs the settings."""
        log = logging.getLogger("flwr")
        name = type(self.rule).__name__
        log.info("\t├──> %s, uplink %s, downlink %s", name, text(self.uplink), text(self.downlink))
        log.info("\t└──> %s of %s clients a round", self.cohort, self.clients)

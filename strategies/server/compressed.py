"""Compressed uplink and downlink for any Flower strategy, the way Flower's own wrappers work.

The server half wraps a strategy: models leave as payloads, updates come back as
payloads, and the strategy inside sees ordinary arrays, of float64. The client half is a mod
(``client_mod``) around any ClientApp that answers a model with a trained model, or a
client that speaks payloads itself.
"""

from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvgM, Strategy
from torch import Tensor

from compressors import Compressor, Raw
from strategies.channel import nodes
from strategies.channel.buffers import Buffers
from strategies.channel.payload import KEY, to_arrays, to_parameters, to_tensors
from strategies.channel.server_end import Exchange


class Compressed(Strategy):
    """Wraps ``strategy`` so that every model and every update travels as a payload.

    Args:
        strategy: any Message-API strategy (FedAvg, FedAdam, ...).
        uplink: how clients encode their updates.
        downlink: how the server encodes the change of the global model; raw by default.
        clients: the number of clients. Cohort and order of summation then follow from
            partitions and ``seed``, the same on every engine; None: from Flower's random
            node ids, as the strategy inside samples them. The client app must answer who
            it is (``answer_partition``).
        cohort: how many take part in a round (with ``clients``); None: all. The strategy
            inside sees only these, so leave its fraction at 1.
        required: how many clients must come back with a usable update; None: all that
            were asked.
        seed: of the cohort's draw and of random compressors.
        timeout: seconds to wait for the clients to register (with ``clients``).
        buffers: what else the model has (BatchNorm's statistics), and when it travels; the
            strategy inside does not see it.

    The strategy inside is given the clients' models, base plus update, as float64, so that its mean
    leaves what nobody sent as it was. Messages for evaluation pass through as it makes them.
    ``aggregate_train`` raises ``TooFewReplies``.

    Example:
        >>> from flwr.serverapp.strategy import FedAdam
        >>> from compressors import sbc
        >>> strategy = Compressed(FedAdam(), uplink=sbc(0.01))
    """

    def __init__(
        self,
        strategy: Strategy,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        clients: int | None = None,
        cohort: int | None = None,
        required: int | None = None,
        seed: int = 0,
        timeout: float = 60.0,
        buffers: Buffers | None = None,
    ) -> None:
        self.strategy = strategy
        self.uplink, self.downlink = uplink, downlink or Raw()
        self.clients, self.cohort, self.timeout = clients, cohort or clients, timeout
        self.required, self.seed = required, seed
        self.buffers = buffers
        self.exchange: Exchange | None = None
        self._sent: ArrayRecord | None = None
        self._nodes: dict[int, int] = {}  # client -> node

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of the strategy inside, with its arrays replaced by payloads."""
        if self.exchange is None or (arrays is not self._sent and self._sent is not None):
            self.exchange = Exchange(
                self.uplink, self.downlink, to_parameters(arrays), self.seed, self.buffers
            )
        if isinstance(self.strategy, FedAvgM):
            self.strategy.current_arrays = arrays  # what clients hold, not what it wished they held
        grid = self._cohort(server_round, grid)
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        clients = {self._client(m.metadata.dst_node_id): m for m in messages}
        self.exchange.begin(server_round, sorted(clients))
        for client, message in clients.items():
            message.content = self._content(client, message.content, config)
        return messages

    def _cohort(self, server_round: int, grid: Grid) -> Grid:
        if self.clients is None or self.cohort is None:
            return grid
        if not self._nodes:
            self._nodes = nodes.find(grid, self.clients, self.timeout)
        chosen = nodes.cohort(self.clients, self.cohort, self.seed, server_round)
        return nodes.CohortGrid(grid, [self._nodes[c] for c in chosen])

    def _client(self, node: int) -> int:
        return next((c for c, n in self._nodes.items() if n == node), node)

    def client_of(self, reply: Message) -> int:
        """Which client a reply is from."""
        return self._client(reply.metadata.src_node_id)

    def _content(self, client: int, inner: RecordDict, config: ConfigRecord) -> RecordDict:
        """A copy of its own for each client: strategies share one record between messages."""
        assert self.exchange is not None
        record = RecordDict({k: v for k, v in inner.items() if not isinstance(v, ArrayRecord)})
        record[KEY] = self.exchange.content(client, config)[KEY]
        return record

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """What the strategy inside makes of the decoded models, in client order."""
        if self.exchange is None:
            raise RuntimeError("aggregate_train before configure_train")
        exchange = self.exchange
        arrived = {self._client(reply.metadata.src_node_id): reply for reply in replies}
        for client, reply in sorted(arrived.items()):
            exchange.take(client, reply)
        asked = len(exchange.trip.downlinks)
        uplinks = exchange.finish(asked if self.required is None else self.required)
        decoded = [_as_model(arrived[c], exchange, up.update) for c, up in uplinks.items()]
        arrays, metrics = self.strategy.aggregate_train(server_round, decoded)
        if arrays is not None:
            target = to_tensors(arrays)
            if exchange.follows:
                exchange.advance({n: target[n] - x for n, x in exchange.weights.items()})
            else:
                exchange.replace(target)
            self._sent = to_arrays(exchange.weights)
        return self._sent, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the strategy inside."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """As the strategy inside."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """As the strategy inside."""
        self.strategy.summary()


def _as_model(reply: Message, exchange: Exchange, update: dict[str, Tensor]) -> Message:
    """The reply as the strategy inside expects it: one model, one set of metrics.

    In float64: the mean of equal float32 numbers, as Flower takes it, is often not that number.
    Rounded to float32 again, the mean of entries that nobody sent is what they were, to the bit.
    """
    model = to_arrays({n: x.double() + update[n] for n, x in exchange.weights.items()})
    content = RecordDict({k: v for k, v in reply.content.items() if k != KEY})
    content["arrays"] = model
    reply.content = content
    return reply

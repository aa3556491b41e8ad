"""What every strategy over the channel has: settings, who is who, the channel, its memory."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from torch import Tensor

from compressors import Compressor, Raw, State
from compressors.whole.lift import inside
from strategies.channel import nodes
from strategies.channel.buffers import Buffers
from strategies.channel.payload import to_arrays, to_parameters
from strategies.channel.server_end import ServerEnd
from strategies.server.around import check_around


class ChannelStrategy(Strategy):
    """A strategy whose models and updates travel as payloads over one ``ServerEnd``.

    A round is ``ask``, then ``advance``. Flower's own loop calls them by ``configure_train`` and
    ``aggregate_train``, which hand the model over as a record; a loop that reads
    ``exchange.weights`` calls ``open`` once and then these two, and no record is made.

    Args:
        uplink: how clients encode their updates; decodes exactly what they sent.
        downlink: how the server encodes the global update; raw by default.
        clients: the number of clients, all of which must register; None: not known.
        cohort: how many take part in a round, drawn from ``seed``; None: all.
        required: how many must come back with a usable update; None: all that were asked.
        seed: of the cohort's draw and of random compressors.
        timeout: seconds to wait for the clients to register.
        buffers: what else the model has (BatchNorm's statistics), and when it travels.

    Attributes:
        exchange: the channel; None before the first round.
    """

    def __init__(
        self,
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
        self.uplink, self.downlink = uplink, downlink or Raw()
        self.clients, self.cohort, self.required = clients, cohort or clients, required
        self.seed, self.timeout, self.buffers = seed, timeout, buffers
        self.exchange: ServerEnd | None = None
        self._nodes: dict[int, int] = {}  # client -> node

    @abstractmethod
    def ask(self, server_round: int, config: ConfigRecord, grid: Grid) -> list[Message]:
        """The messages of a round, one per client of its cohort."""

    @abstractmethod
    def advance(self, replies: Iterable[Message]) -> MetricRecord | None:
        """Moves the shared model by what clients sent; returns the clients' metrics, averaged.

        Raises ``TooFewReplies``. Where the replies make no model, the version stays as it was.
        """

    def open(self, weights: dict[str, Tensor], server_round: int = 1) -> ServerEnd:
        """The channel, opened anew where ``weights`` are not those of the model that it shares.

        A model that was changed between two rounds of a run has a version of its own, and is sent
        whole to everybody. With the first round of another run versions begin again.
        """
        known = self.exchange
        if known is not None and known.holds(weights):
            return known
        self.exchange = ServerEnd(self.uplink, self.downlink, weights, self.seed, self.buffers)
        if known is not None and server_round > known.trip.round:
            self.exchange.version = known.version + 1
        return self.exchange

    def drawn(self, server_round: int, grid: Grid) -> dict[int, int]:
        """The nodes of a round's cohort by client; waits until all clients have registered."""
        assert self.clients is not None and self.cohort is not None
        if not self._nodes:
            self._nodes = nodes.find(grid, self.clients, self.timeout)
        chosen = nodes.cohort(self.clients, self.cohort, self.seed, server_round)
        return {client: self._nodes[client] for client in chosen}

    def client_of(self, reply: Message) -> int:
        """Which client a reply is from; its node where clients are not known by number."""
        return self.client_at(reply.metadata.src_node_id)

    def client_at(self, node: int) -> int:
        """The number of the client at a node; the node's own where none is known."""
        return next((client for client, known in self._nodes.items() if known == node), node)

    def state(self) -> tuple[State, dict[str, Any]]:
        """The memory after a finished round: tensors, and values that JSON can hold.

        Raises ``RuntimeError`` before the first round.
        """
        if self.exchange is None:
            raise RuntimeError("there is no memory before the first round")
        return self.exchange.state()

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned, in a new strategy of the same settings."""
        weights = inside("weights", tensors)
        self.exchange = ServerEnd(self.uplink, self.downlink, weights, self.seed, self.buffers)
        self.exchange.restore(tensors, values)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """See ``ask``; ``arrays`` is the model."""
        check_around(self)
        self.open(to_parameters(arrays), server_round)
        return self.ask(server_round, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """See ``advance``; the model as a record comes with the metrics."""
        if self.exchange is None:
            raise RuntimeError("aggregate_train before configure_train")
        metrics = self.advance(replies)
        return to_arrays(self.exchange.weights), metrics

"""The base of strategies over the channel: settings, nodes of clients, the channel, its memory."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from torch import Tensor

from compressors import Compressor, Raw, State, Tensors, text
from compressors.whole.keepers import needs_server
from compressors.whole.memory import nest, unnest
from strategies.algorithms.base import PLAIN, Algorithm, RoundInfo, checked_step
from strategies.algorithms.dsgd import DSGD
from strategies.algorithms.requirements import Setup
from strategies.channel import nodes
from strategies.channel.app_checks import check_method, check_record
from strategies.channel.buffers import Buffers
from strategies.channel.directions import directs
from strategies.channel.framing import Travel
from strategies.channel.mailbox import LATE, Late, Mailbox
from strategies.channel.nodes import CohortDraw, Roster
from strategies.channel.orders import Side
from strategies.channel.payload import BASE, KEY, OURS, ends
from strategies.channel.relay import Relay
from strategies.channel.replies import ABSENT, AT_WORK
from strategies.channel.server_end import ServerEnd
from strategies.channel.traffic import Uplink
from strategies.server.statedict import StateDict
from strategies.server.wrappers import check_around


class ChannelStrategy(Strategy):
    """A strategy whose models and updates travel as payloads over one ``ServerEnd``.

    A round is ``ask``, then ``advance``. Flower's own loop calls them by ``configure_train`` and
    ``aggregate_train``, which hand the model over as a record; a loop that reads
    ``channel.weights`` calls ``open`` once and then these two, and no record is made. The
    ``train_config`` of ``start`` is in the message's record ``config``, as of Flower's own
    strategies; the ``config`` of ``ask`` is next to the payload.

    Args:
        uplink: how clients encode their updates; decodes exactly what they sent.
        downlink: how the server encodes the global update; raw by default.
        clients: the number of clients, all of which must register; None: not known.
        cohort: how many take part in a round, drawn from ``seed``; None: all.
        required: how many must come back with a usable update; None: one, or the whole cohort where
            the algorithm needs ``every_reply``; 0: a round without any leaves the model as it is. A
            client that has no node when its turn comes has failed, and is not waited for.
        seed: of the cohort's draw and of random compressors.
        timeout: seconds that clients have to say who they are, and to answer where they are sent
            the model a second time within a round.
        buffers: what else the model has (BatchNorm's statistics), and when it travels. Of these
            what is not of floats, such as BatchNorm's count, stays with each client.
        frozen: the names of arrays of the model that nobody trains, as given to ``client_mod``: in
            no update and in no model that is sent. The model that ``start`` returns has them.
        late: the policy for an update that comes when its round is over (``channel.mailbox``): a
            function, or ``hold``, ``drop`` or ``count``.
        catch_up: whether a client that missed rounds is sent the updates that it missed, where
            they are shorter than the model.
        max_norm: the greatest L2 norm of a client's update, decoded: one above is not used, and
            counts as failed; None: any.
        rule: the algorithm that this strategy runs; None: it is another than ours.

    Attributes:
        channel: to every client; None before the first round.
        awaited: how many clients must have registered before the first round: those that are
            ``required``, where that is given; else all.
        among: clients that can be asked now; None: all.
        roster: which client is at which node; None where clients are not known by number.
        selection: how many clients a round asks: the cohort, or more of which the first replies are
            used (over-selection); set before the first round.
        draws: the sampler of a round's clients, set before the first round; None: ``nodes.cohort``.
        run_sides: side payloads of the run that drives this: orders, local steps, reports; set
            before the first round.
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
        frozen: Collection[str] = (),
        late: Late | str = "hold",
        catch_up: bool = False,
        max_norm: float | None = None,
        rule: Algorithm | None = None,
    ) -> None:
        self.uplink, self.downlink = uplink, Raw() if downlink is None else downlink
        for setting, method in (("uplink", uplink), ("downlink", self.downlink)):
            check_method(setting, method)
        if buffers is not None and not isinstance(buffers, Buffers):
            raise ValueError(f"buffers is {buffers!r}: give Buffers({{name: tensor}})")
        needs_method = rule.needs_method if rule else ""
        down = directs(self.downlink) and needs_server(self.downlink) == needs_method
        below = "" if down else needs_server(self.downlink)
        if below or needs_server(uplink) not in ("", needs_method):
            server_method = below or needs_server(uplink)
            raise ValueError(
                f"the messages of {server_method} are read by strategy {server_method} alone"
            )
        if isinstance(self.downlink, Relay) and not (rule and rule.averages):
            raise ValueError(
                "downlink is relay: every client makes the mean of the others' updates itself, "
                f"uniform or by samples; {rule or type(self).__name__} makes another model"
            )
        self.clients, self.cohort, self.required = clients, cohort or clients, required
        self.selection = self.cohort
        self.awaited = (clients or 1) if required is None else required or 1
        self.seed, self.timeout = seed, timeout
        self.buffers: Buffers | None = None  # another strategy may share what is given
        if buffers is not None:
            floats = {n: x for n, x in buffers.values.items() if x.is_floating_point()}
            self.buffers = replace(
                buffers, values=floats, weighting=buffers.weighting or self.weighs(rule)
            )
        self.late = LATE[late] if isinstance(late, str) else late
        self.catch_up, self.max_norm = catch_up, max_norm
        self.frozen = tuple(frozen)
        self.among: Sequence[int] | np.ndarray | None = None
        self.channel: ServerEnd | None = None
        self.roster = None if clients is None else Roster(clients, timeout)
        self.draws: CohortDraw | None = None
        self.run_sides: tuple[Side, ...] = ()
        self._initial_buffers = self.buffers.values if self.buffers else {}
        self._layout: StateDict | None = None
        self._handed: ArrayRecord | None = None  # what this made of the round before
        self._restored, self._before = False, 0  # rounds before this start
        self._ties = ""  # which arrays of the model may be one
        self._mail = Mailbox(self.late)
        self._grid: Grid | None = None

    def start(self, grid: Grid, initial_arrays: ArrayRecord, *args: Any, **named: Any) -> Result:
        """Flower's loop; of a restored strategy, from the model that was restored."""
        check_record("initial_arrays", initial_arrays)
        if self.channel is not None and self._restored:
            layout = StateDict(initial_arrays, self.buffers, self.frozen)
            initial_arrays = layout.to_record(self.channel.weights)
        return super().start(grid, initial_arrays, *args, **named)

    @property
    def end(self) -> ServerEnd:
        """The channel; ``RuntimeError`` before the first round."""
        if self.channel is None:
            raise RuntimeError("there is no memory before the first round")
        return self.channel

    def weighs(self, rule: Algorithm | None) -> str:
        """By what the mean of clients' updates is weighted, as ``Buffers.weighting``."""
        return rule.weighs if rule else "uniform"

    @abstractmethod
    def ask(self, server_round: int, config: ConfigRecord, grid: Grid) -> list[Message]:
        """The messages of a round, one per client of its cohort."""

    @abstractmethod
    def advance(self, replies: Iterable[Message]) -> MetricRecord | None:
        """Moves the shared model by what clients sent; returns the clients' metrics, averaged.

        Raises ``TooFewReplies``. Where the replies make no model, the version stays as it was.
        """

    def ties_of(self, weights: Tensors) -> str:
        """Which arrays of an initial model may be one, as ``payload.tied`` reads it."""
        return ""

    def open(self, weights: dict[str, Tensor], server_round: int = 1) -> ServerEnd:
        """The channel, opened anew where ``weights`` are not those of the model that it shares.

        A model that was changed between two rounds of a run has a version of its own, and is sent
        whole to everybody. With the first round of another run versions begin again, and clients
        forget what they kept, for any model.
        """
        previous = self.channel
        goes_on = previous is not None and server_round > previous.traffic.round
        if previous is not None and goes_on and previous.holds(weights):
            return previous
        self.channel = self._end(weights)
        if previous is not None and goes_on:
            self.channel.version = previous.version + 1
            self.channel.channel_id = previous.channel_id
            self.channel.applied, self.channel.lost = previous.applied, previous.lost
            # Of updates that are under way: what their clients were sent, and asked for.
            self.channel.sent_last = previous.sent_last
            self.channel.iterations = previous.iterations
        return self.channel

    def sides(self) -> list[Side]:
        """The side payloads of models and updates.

        The run's come first: whether buffers are requested depends on the ordered iterations.
        """
        return [*self.run_sides, *([self.buffers] if self.buffers else [])]

    def _end(self, weights: dict[str, Tensor]) -> ServerEnd:
        settings = self.seed, self.sides(), self.catch_up, self.max_norm, self._ties
        return ServerEnd(self.uplink, self.downlink, weights, *settings)

    def drawn(self, server_round: int, grid: Grid) -> tuple[dict[int, int], dict[int, str]]:
        """A round's cohort: the node of each client, and why others of it cannot be asked now.

        The first round waits until all clients have registered, or as many as are ``required``. A
        client that still works on an earlier message is not asked again before it has answered.
        """
        assert self.roster is not None and self.clients is not None and self.selection is not None
        self._grid = grid
        if self.channel is not None:
            self._mail.hear(grid, self.channel, in_round=False)
        nodes_of = self.roster.present(grid, self.awaited)
        node_of, out = dict[int, int](), dict[int, str]()
        if self.draws is None:
            count, among = self.selection, self.among
            drawn: Sequence[int] = nodes.cohort(self.clients, count, self.seed, server_round, among)
        else:
            reachable = range(self.clients) if self.among is None else self.among
            drawn = sorted(self.draws(server_round, reachable, self.selection))
        unanswered = {*self._mail.unanswered.values()}
        undecided = {client for client, _ in self._mail.undecided}
        for client in drawn:
            node = nodes_of.get(client)
            if node is None:
                out[client] = ABSENT
            elif (client, node) in unanswered or client in undecided:
                out[client] = AT_WORK
            else:
                node_of[client] = node
        return node_of, out

    def collect(self, replies: Iterable[Message]) -> dict[int, Message]:
        """Books every reply as it comes; returns each client's: the one whose update counts.

        A client that wants the model is sent it now, and answered for before this returns.
        """
        channel, grid = self.end, self._grid
        assert grid is not None
        by_client = self._take(replies, channel)
        if channel.traffic.wishes:
            again = {client: self._once_more(client, channel) for client in channel.grant()}
            answers = grid.send_and_receive(self._mail.send(again), timeout=self.timeout)
            by_client |= self._take(answers, channel)
        return self._mail.hear(grid, channel, in_round=True) | by_client

    def _take(self, replies: Iterable[Message], channel: ServerEnd) -> dict[int, Message]:
        by_client = {}
        for reply in replies:
            client = self._mail.client_of(reply)
            client = self.client_at(reply.metadata.src_node_id) if client is None else client
            if client not in channel.traffic.uplinks:  # its first update counts
                by_client[client] = reply
            channel.take(client, reply)
        return by_client

    def _once_more(self, client: int, channel: ServerEnd) -> Message:
        """The round's message to a client, with the whole model in it."""
        first = self._mail.messages[client]
        before = first.content.config_records[KEY]
        settings = ConfigRecord({k: v for k, v in before.items() if k != BASE})
        others = RecordDict({k: v for k, v in first.content.items() if k not in OURS})
        content = channel.content(client, settings, others)
        return Message(content, first.metadata.dst_node_id, first.metadata.message_type)

    def expect(self, client: int, message: Message) -> None:
        """A client is at work on a message of a round before a checkpoint."""
        self._mail.expect(client, message)

    def client_at(self, node: int) -> int:
        """The number of the client at a node; the node's own where none is known."""
        return node if self.roster is None else self.roster.client_at(node)

    def state(self) -> tuple[State, dict[str, Any]]:
        """The memory after a finished round: tensors, and values that JSON can hold.

        Raises ``RuntimeError`` before the first round.
        """
        tensors, values = self.end.state()
        return tensors, values | ({"names": self.roster.names} if self.roster else {})

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned, in a new strategy of the same settings.

        The next ``start`` does the rounds after it, with the model of then: of the arrays that it
        is given names, dtypes and what is frozen count. Its result counts rounds from 1.
        """
        self._ties = values.get("ties", "")
        self.channel, self._restored = self._end(unnest("weights", tensors)), True
        self.channel.restore(tensors, values)
        if self.roster is not None:
            self.roster.names = dict(values["names"])

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """See ``ask``; ``arrays`` is the model, and ``config`` is for the clients' apps."""
        check_around(self)
        channel = self.channel
        if channel is not None and self._restored:
            # Flower's loop counts from 1, and a loop of one's own may count on.
            self._before = channel.traffic.round if server_round <= channel.traffic.round else 0
            self._layout = StateDict(arrays, self.buffers, self.frozen)
            self._handed, self._restored = arrays, False
        server_round += self._before
        goes_on = channel is not None and server_round > channel.traffic.round
        if channel is None or not goes_on or arrays is not self._handed:  # mostly that of before
            if self._layout is None or not goes_on:
                self._layout = StateDict(arrays, self.buffers, self.frozen)
            if self.buffers is not None and not goes_on:
                self.buffers.values = self._initial_buffers | self._layout.statistics(arrays)
            weights = self._layout.parameters(arrays)
            if not goes_on:
                self._ties = self.ties_of(weights)
            if channel is not None and not goes_on:
                self._start_again(weights)
                server_round -= self._before
                self._before, self._restored = 0, False
            channel = self.open(weights, server_round)
        channel.app = config
        buffers = self.buffers.values if self.buffers else ()
        channel.ends = ends(self.uplink, self.downlink, channel.weights, buffers)
        return self.ask(server_round, ConfigRecord(), grid)

    def _start_again(self, weights: dict[str, Tensor]) -> None:
        """Forgets what this remembers of the start before, as its clients do."""
        tensors, values = self._end(weights).state()
        self.restore(tensors, values | ({"names": self.roster.names} if self.roster else {}))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """See ``advance``; the model as a record, buffers included, comes with the metrics.

        Among these are ``bytes-up`` and ``bytes-down``: all messages of the round for training, as
        Flower sends them, payloads and framing.
        """
        if self.channel is None or self._layout is None:
            raise RuntimeError("aggregate_train before configure_train")
        metrics = self.advance(replies)
        self._handed = self._layout.to_record(self.channel.weights)
        return self._handed, with_bytes(metrics, self.channel.traffic.wire.trained())


def with_bytes(metrics: MetricRecord | None, travel: Travel) -> MetricRecord:
    """The metrics of a round with what travelled for them, for Flower's log and result.

    Example:
        >>> dict(with_bytes(MetricRecord({"loss": 0.5}), Travel(down=7, up=3)))
        {'loss': 0.5, 'bytes-up': 3, 'bytes-down': 7}
    """
    return MetricRecord({**(metrics or {}), "bytes-up": travel.up, "bytes-down": travel.down})


def check(rule: Algorithm, strategy: ChannelStrategy) -> None:
    """Raises ``ValueError`` for a strategy whose settings the algorithm does not go with."""
    if rule.refuses_buffers and strategy.buffers is not None:
        name, reason = type(rule).__name__, rule.refuses_buffers
        raise ValueError(f"buffers is {strategy.buffers!r}; with {name} {reason}: give None")
    late = next((name for name, policy in LATE.items() if policy is strategy.late), "")
    setup = Setup(
        strategy.uplink,
        strategy.downlink,
        strategy.clients,
        strategy.cohort,
        strategy.required,
        late,
        max_norm=strategy.max_norm,
    )
    if (wrong := rule.unmet(setup)) is not None:
        value = getattr(setup, wrong.setting)
        shown = text(value) if wrong.setting in ("uplink", "downlink") else repr(value)
        instead = f": give {wrong.instead}" if wrong.instead else ""
        raise ValueError(
            f"{wrong.setting} is {shown}; {type(rule).__name__} {wrong.reason}{instead}"
        )


class RuledStrategy(ChannelStrategy):
    """A ``ChannelStrategy`` whose model moves as an algorithm says.

    The server evaluates (``evaluate_fn``), so that evaluation costs no bits: clients'
    ``@app.evaluate`` is not called.

    Attributes:
        memory: the algorithm's.

    Raises ``ValueError`` for an uplink of which the algorithm can make nothing.
    """

    clients: int

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        clients: int,
        rule: Algorithm,
        **common: Any,
    ) -> None:
        super().__init__(uplink, downlink, clients=clients, rule=rule, **common)
        self.rule = rule
        check(rule, self)
        if self.required is None:
            self.required = self.cohort if rule.every_reply else 1
        self.memory: State = {}

    def step(self, uplinks: dict[int, Uplink], **facts: Any) -> bool:
        """Moves the model by the algorithm's step of updates; returns whether it has moved.

        ``facts``: what else ``RoundInfo`` has of the round, or of an arrival.
        """
        end, cohort = self.end, self.cohort or 0
        now = RoundInfo(end.traffic.round, self.seed, self.clients, self.uplink, cohort, **facts)
        delta, self.memory = checked_step(self.rule, uplinks, self.memory, end.weights, now)
        if delta is not None:
            end.advance(delta)
        return delta is not None

    def sides(self) -> list[Side]:
        """Those of every strategy, and the algorithm's own."""
        return [*super().sides(), *self.rule.sides(self.seed)]

    def state(self) -> tuple[State, dict[str, Any]]:
        """The channel's memory, messages under way included, and the algorithm's."""
        tensors, values = super().state()
        return tensors | nest("rule", self.memory), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        super().restore(tensors, values)
        self.memory = unnest("rule", tensors)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """See ``ask``.

        Raises ``ValueError`` where the algorithm has a client's half: no ``client_mod`` has it, and
        the model would be another algorithm's. So it would be with the weighting ``nova`` and
        without ``run_sides``: nobody says how many local iterations a client does.
        """
        if self.rule.client is not PLAIN:
            raise ValueError(
                f"rule is {self.rule!r}, whose clients do more than train, which a client_mod does "
                "not do: run it as RunConfig(strategy=...), or give a rule of the server alone"
            )
        if isinstance(self.rule, DSGD) and self.rule.weighting == "nova" and not self.run_sides:
            raise ValueError(
                "weighting is 'nova': it divides by the local iterations of each client, which "
                "apps do not say; give uniform or samples"
            )
        return super().configure_train(server_round, arrays, config, grid)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nothing."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Nothing to aggregate."""
        return None

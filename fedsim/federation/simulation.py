"""A run's simulated time: who is asked, who drops out, when a round is over; and its grid.

Which client is late follows from the lengths of the messages and from the settings alone, so that
every engine has the same rounds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Literal

import numpy as np
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fedsim.engines import compat
from fedsim.federation import inflight, ledger
from fedsim.federation.failures import DROPPED, LATE
from fedsim.federation.inflight import InFlight, bits_back, bits_down
from fedsim.federation.spending import Spending
from fedsim.ground.records import SimulatedClient, SimulatedRound, SimulatedTime, TimeParts
from fedsim.network.clock import PARTS, Clock
from fedsim.network.spec import NetworkSpec, parse
from fedsim.settings.config import RunConfig
from fedsim.settings.samplers.simple import Uniform
from strategies import ChannelStrategy, Relay, RoundTraffic
from strategies.channel.nodes import CohortGrid, Without
from strategies.channel.payload import CLIENT, settings_in
from strategies.channel.replies import metrics_of

_NO_TIME = "compute=0s"
_CODES = ("decode-seconds", "encode-seconds")


class Simulation:
    """The clock of one run, and who is asked, drops out and is late.

    Args:
        config: the run.
        strategy: its strategy, which is given the available clients.
        now: where the clock begins, in seconds: not at 0 where a run goes on.
        network: the run's, with the FLOPs of an iteration where it goes by them; None: no network.
        spending: the clients' energy; None: nothing takes any.

    Attributes:
        joules: what clients have spent in the round, by client.
    """

    def __init__(
        self,
        config: RunConfig,
        strategy: ChannelStrategy,
        now: float = 0.0,
        network: NetworkSpec | None = None,
        spending: Spending | None = None,
    ) -> None:
        plan = config.plan
        self.spending, self.joules = spending, dict[int, float]()
        self.strategy, self.rules, self.seed = strategy, plan.rules, config.seed
        self.timed, self.counts = network is not None, config.clients.late == "count"
        self.clients, self.least, self.iterations = plan.clients, plan.min_replies, 0
        # Any other sampler than the uniform one chooses among all that can be asked.
        self.capacity = plan.ask if isinstance(plan.draws, Uniform) else plan.clients
        self.network: NetworkSpec = network or parse(_NO_TIME)
        self._ahead = plan.algorithm.steps_ahead if self.network.overlap else 0
        self._trained_at = dict[int, float]()  # by client, in its last round
        self.clock: Clock[InFlight] = Clock(self.network.links(plan.clients, config.seed, 1.0), now)
        self._relays = isinstance(plan.downlink, Relay)
        rule = plan.rules.availability
        self._presence = None if rule is None else rule.of(plan.clients, config.seed)
        self.number, self.start = 0, now
        self.works = dict[int, InFlight]()  # of the round, and late ones
        self._delivered = dict[int, float]()  # by client: bits of the model that it has already
        self.leaves: np.ndarray = np.zeros(0, "U6")  # by client: ``Leaves``

    def begin(self, number: int, iterations: int) -> None:
        """Begins a round, when enough clients are there; the strategy hears who they are."""
        self.number, self.start, self.iterations = number, self.clock.now, iterations
        self.leaves = self.rules.dropout.draw(self.seed, number, self.clients)
        self.works, self._delivered, self.joules = self.late, {}, {}
        if self._presence is not None or self.rules.late or self._depleted:
            self.strategy.among = self._free()

    def ask_first(self, exchanges: Sequence[InFlight], work: Mapping[int, float]) -> None:
        """Sends clients the model before the round asks any; goes on until all have answered.

        What the round sends them then lacks the bits that they have.

        Args:
            exchanges: of clients that can be asked.
            work: by client, what it computes for its answer, in local iterations.
        """
        self.clock.send(exchanges)
        self.clock.wait(exchanges, len(exchanges))
        for exchange in exchanges:
            del self.clock.exchanges[exchange.client]
            self._delivered[exchange.client] = exchange.down_bits
            self.spend(exchange, work[exchange.client])

    def exchange(self, stage: Literal["before", "after"]) -> None:
        """Exchanges with the clients of the round before its messages, or after its replies.

        The server waits for all clients with each of them. What the round sends lacks the bits
        that they had before.
        """
        downs = self.traffic.downlinks.items()
        sizes = {client: getattr(down, stage) for client, down in downs}
        for place in range(max(map(len, sizes.values()), default=0) if self.timed else 0):
            exchanges = [
                InFlight(client, self.number, pairs[place][0], up_bits=pairs[place][1])
                for client, pairs in sizes.items()
                if pairs
            ]
            self.clock.send(exchanges)
            self.clock.wait(exchanges, len(exchanges))
            for x in exchanges:
                del self.clock.exchanges[x.client]
                self._delivered[x.client] = self._delivered.get(x.client, 0.0) + x.down_bits
                self.spend(x)

    def spend(self, exchange: InFlight, work: float | None = None) -> None:
        """Books the energy of an exchange; ``work``: as of ``Spending.charge``."""
        if self.spending is not None:
            before = self.joules.get(exchange.client, 0.0)
            self.joules[exchange.client] = before + self.spending.charge(exchange, work)

    @property
    def late(self) -> dict[int, InFlight]:
        """By client: updates of earlier rounds that the server has not been given yet."""
        under_way = self.clock.exchanges.values()
        return {x.client: x for x in under_way if x.reply is not None and x.number < self.number}

    @property
    def _depleted(self) -> list[int]:
        """Clients whose battery is empty."""
        return [] if self.spending is None else self.spending.empty

    def _free(self) -> Sequence[int] | np.ndarray:
        """Goes on until enough clients are there; those that can be asked then."""
        while True:
            now = self.clock.now
            if self._presence is None:
                out = {*self._busy(now), *self._depleted}
                free: Sequence[int] | np.ndarray = Without(self.clients, out)
            else:
                now, free = self._presence.at(
                    now, self.number, self.least, self.capacity, self._busy, self._depleted
                )
                self.clock.to(now)
            # An update that is counted when it comes is not waited for: the round that it is
            # for asks those who are free, and may be of late updates alone.
            if self.counts or len(free) >= self.least:
                return free
            self.clock.wait([self.late[client] for client in self._busy(now)], 1)

    def _busy(self, now: float) -> list[int]:
        """Those at work at a time, to which the clock goes on."""
        self.clock.to(now)
        return [c for c, x in self.late.items() if self.counts or not x.over]

    @property
    def matters(self) -> bool:
        """Whether anything but the usual happens: a clock is asked for, or clients may be away."""
        return self.timed or not self.rules.plain

    @property
    def traffic(self) -> RoundTraffic:
        """The traffic of the round."""
        assert self.strategy.channel is not None
        return self.strategy.channel.traffic

    def lose(self, client: int, reply: Message | None) -> None:
        """Books the update of a client that drops out, where it has trained and keeps nothing."""
        channel = self.strategy.channel
        assert channel is not None
        if reply is not None and reply.has_content() and channel.loses(client):
            self.traffic.dropped.append(client)

    def end(self, replies: Mapping[int, Message | None]) -> list[int]:
        """Goes on to the end of the round.

        Args:
            replies: by client that was asked, its reply; None: it never comes.

        Returns:
            The clients whose reply came in time, the first first.
        """
        clock, rules = self.clock, self.rules
        exchanges = [self._exchange(client, reply) for client, reply in sorted(replies.items())]
        for exchange in exchanges:
            self.spend(exchange)
        coming = [exchange for exchange in exchanges if exchange.until == "arrived"]
        limit = math.inf if rules.deadline is None else clock.now + rules.deadline
        late = [*self.late.values()]
        self.works |= {exchange.client: exchange for exchange in exchanges}
        clock.hops = self._hops()
        clock.send(exchanges)
        if not exchanges and late:  # nobody could be asked: late updates make the round
            arrived = sum(exchange.over for exchange in self.works.values())
            clock.wait(late, self.least - arrived + sum(x.over for x in late), limit)
        else:
            clock.wait(coming, rules.waits_for(len(coming), len(coming) < len(exchanges)), limit)
        self._trained_at |= {x.client: x.trained_at for x in coming if x.over}
        order = rules.order([exchange.ended_at for exchange in coming], self.seed, self.number)
        ended = [coming[place].client for place in order if coming[place].over]
        in_time = ended[: rules.first]
        dropped = [x.client for x in clock.exchanges.values() if x.reply is None and x.over]
        for client in [*dropped, *in_time]:
            del clock.exchanges[client]
        return in_time

    def take(self, client: int) -> Message:
        """The reply to a request of an earlier round, which is not in flight any more."""
        reply = self.clock.exchanges.pop(client).reply
        assert reply is not None
        return reply

    def state(self) -> dict[str, Any]:
        """The clock and the exchanges in flight between two rounds, as a checkpoint holds them."""
        exchanges = [exchange.values() for exchange in self.clock.exchanges.values()]
        state = {"clock": self.clock.state(), "exchanges": exchanges}
        return state | ({"trained_at": [*self._trained_at.items()]} if self._ahead else {})

    def restore(self, values: Mapping[str, Any]) -> None:
        """Goes on from what ``state`` returned; the strategy gets the replies in flight."""
        self._trained_at = dict(values.get("trained_at", ()))
        if "works" in values:
            inflight.restore(self.clock, values)
        else:
            exchanges = [InFlight.of(job, {}) for job in values["exchanges"]]
            self.clock.restore(values["clock"], exchanges)
        for exchange in self.clock.exchanges.values():
            if exchange.request is not None:
                self.strategy.expect(exchange.client, exchange.request)

    def _hops(self) -> dict[int, float]:
        """By client, seconds that the round's messages take to its edge server."""
        tree, edges = self.network.tree, self.traffic.edges
        if tree is None or edges is None:
            return {}
        bits = ledger.edge_down_bits(self.traffic)
        return {
            client: tree.latency + bits[group] / tree.down
            for client, group in edges.group_of.items()
        }

    def add_edge_time(self) -> None:
        """The hop from edge servers to the server; an edge server waits for all of its clients."""
        tree, edges = self.network.tree, self.traffic.edges
        if tree is None or edges is None:
            return
        ends = [self.clock.now]
        for group, payload in edges.payloads.items():
            arrivals = [
                work.ended_at
                for client, work in self.works.items()
                if work.until == "arrived" and edges.group_of[client] == group
            ]
            ends.append(max(arrivals) + tree.latency + ledger.wire_bits(payload) / tree.up)
        self.clock.to(max(ends))

    def add_coding_time(self) -> None:
        """The server's own coding, which all wait for: one upload after the other, and the model.

        A server that relays messages codes nothing.
        """
        if self.network.coding and not self._relays:
            spent = self.traffic.decode_seconds + self.traffic.downlink_seconds
            self.clock.to(self.clock.now + self.network.coding * spent)

    def _exchange(self, client: int, reply: Message | None) -> InFlight:
        """What a client does in this round; one whose reply is an error sends no update."""
        framing = self.network.framing
        down = bits_down(self.traffic, client, framing) - self._delivered.get(client, 0.0)
        exchange = InFlight(client, self.number, down, until="received")
        leaves = self.leaves[client]
        if leaves == "before" or reply is None or not reply.has_content():
            return exchange
        seconds = float(self.clock.links.compute[client])
        exchange.iterations = self.traffic.downlinks[client].iterations or self.iterations
        if self.network.measured:
            exchange.compute_seconds = seconds * _seconds(reply, "train-seconds")
        else:
            exchange.compute_seconds = seconds * exchange.iterations
        if self._ahead and client in self._trained_at:  # since the end of the round before
            ahead = exchange.compute_seconds * self._ahead / exchange.iterations
            exchange.ready_at = self._trained_at[client] + ahead
            exchange.compute_seconds -= ahead
        if self.network.coding:
            spent = sum(_seconds(reply, part) for part in _CODES)
            exchange.compute_seconds += self.network.coding * spent
        if leaves:
            exchange.until = "trained"
            return exchange
        answer, exchange.up_bits = bits_back(self.traffic, client, reply, framing)
        exchange.down_bits += answer
        exchange.until, exchange.reply = "arrived", reply
        return exchange

    def row(self) -> SimulatedRound:
        """The round's simulated seconds; the parts are means over the clients that are used."""
        ups = self.traffic.uplinks
        late = sum(up.earlier_round > 0 for up in ups.values()) if self.counts else None
        if not self.timed:
            return SimulatedRound(late)
        parts = [self._parts(client) for client in ups] or [self._parts(-1)]
        time = SimulatedTime(self.clock.now - self.start, self.clock.now)
        return SimulatedRound(late, time, TimeParts(*np.mean(parts, axis=0).tolist()))

    def client_row(self, client: int) -> SimulatedClient | None:
        """A client's parts of the round, which sum to it; NaN where it was not asked."""
        if not (self.counts or self.timed):
            return None
        up = self.traffic.uplinks.get(client)
        late = int(up is not None and up.earlier_round > 0) if self.counts else None
        parts = TimeParts(*self._parts(client).tolist()) if self.timed else None
        return SimulatedClient(late, parts)

    def _parts(self, client: int) -> np.ndarray:
        if client not in self.works:
            return np.full(len(PARTS), np.nan)
        return self.works[client].parts(self.start, self.clock.now)


def _seconds(reply: Message, of: str) -> float:
    """Seconds, as the client says; 0 where it says what cannot be: its update is not used."""
    try:
        return metrics_of(reply.content).get(of, 0.0)
    except ValueError:
        return 0.0


_TRAIN = "train"


class TimedGrid(CohortGrid):
    """A grid whose replies come when the simulated clock says so.

    Args:
        grid: the grid beneath, which answers as fast as it can.
        simulation: the clock.
    """

    def __init__(self, grid: Grid, simulation: Simulation) -> None:
        super().__init__(grid, [])
        self.simulation = simulation
        self.numbered: range | None = getattr(grid, "numbered", None)
        self._ids = count(1)

    def get_node_ids(self) -> Iterable[int]:
        """As the grid beneath."""
        return self._grid.get_node_ids()

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """The replies that come in time, and an error for each client that drops out."""
        messages = list(messages)
        if messages and messages[0].metadata.message_type != _TRAIN:
            return self._grid.send_and_receive(messages, timeout=timeout)
        return self._round(messages, timeout)

    def _round(self, messages: list[Message], timeout: float | None) -> Iterable[Message]:
        simulation, rules = self.simulation, self.simulation.rules
        clients = {recipient_of(message): message for message in messages}
        leaves = {client: simulation.leaves[client] for client in clients}
        for client, message in clients.items():
            if leaves[client] == "before":  # nobody gets it
                compat.name(message, f"dropped-{next(self._ids)}")
        sent = [m for client, m in clients.items() if leaves[client] != "before"]
        replies: dict[int, Message | None] = dict.fromkeys(clients)
        ids: dict[str, int] = {}
        for reply in self._grid.send_and_receive(sent, timeout=timeout):
            if not ids:  # a grid gives messages their ids when it sends them
                ids = {m.metadata.message_id: client for client, m in clients.items()}
            client = ids[reply.metadata.reply_to_message_id]
            replies[client] = reply
            if not rules.late and not leaves[client]:
                yield reply  # the server decodes while others train
        in_time = simulation.end(replies)
        for client, when in leaves.items():
            if when:
                simulation.lose(client, replies[client])
                error = Error(ErrorCode.NODE_UNAVAILABLE, DROPPED[when])
                yield Message(error, reply_to=clients[client])
        if not rules.late:
            return
        # Those that come later are in flight until they have.
        for client, answer in replies.items():
            if answer is None or simulation.leaves[client] or client in in_time:
                continue
            if simulation.works[client].until != "arrived":  # an error
                yield answer
                continue
            simulation.traffic.failures[client] = LATE
        for client in in_time:
            answer = replies[client]
            assert answer is not None
            yield answer

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies of earlier rounds that have come by now."""
        ids, simulation = list(message_ids), self.simulation
        held = {
            x.reply.metadata.reply_to_message_id: x
            for x in simulation.clock.exchanges.values()
            if x.reply is not None
        }
        others = [key for key in ids if key not in held]
        real = list(self._grid.pull_messages(others)) if others else []
        late, exchanges = simulation.late, [held[key] for key in ids if key in held]
        arrived = [exchange for exchange in exchanges if exchange.client in late and exchange.over]
        return [simulation.take(exchange.client) for exchange in arrived] + real


def recipient_of(message: Message) -> int:
    """The number of the client that a message of the server goes to."""
    return int(str(settings_in(message.content)[CLIENT]))

"""Rounds: a cohort is asked, and the server waits for it; the clock's grid.

Flower's own strategies ask a grid for the replies of a round, so that the clock is one around it.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Literal

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid

from fedsim.engines import compat
from fedsim.federation import inflight, ledger
from fedsim.federation.evaluation import local_loss
from fedsim.federation.failures import LATE
from fedsim.federation.inflight import InFlight, bits_back, bits_down, drop_error
from fedsim.federation.sampling import NUMBER_BITS
from fedsim.federation.schedule import Schedule
from fedsim.federation.updates import RoundUpdates, Update
from fedsim.ground.errors import RunFailed
from fedsim.ground.records import ClientTiming, TimeParts
from fedsim.network.clock import PARTS
from fedsim.network.cohorts import Leaves
from fedsim.settings.samplers.simple import Uniform
from strategies import Relay, RoundTraffic
from strategies.channel.nodes import CohortGrid, Without
from strategies.channel.payload import CLIENT, settings_in
from strategies.channel.replies import metrics_of

_CODES = ("decode-seconds", "encode-seconds")
_TRAIN = "train"
FORWARD = 1 / 3  # the time of a forward pass, as a share of a local iteration's


class Rounds(Schedule):
    """One round after the other: who is asked, drops out and is late; when a round is over.

    Attributes:
        joules: what clients have spent in the round, by client.
        works: the requests of the round, and late ones, by client.
        leaves: when each client that is asked drops out in the round, by client.
        traffic: of the round.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        plan, self.joules = self.plan, dict[int, float]()
        self._selects = self.presence is not None or self.rules.late  # among those that are free
        self.traffic = RoundTraffic(0)
        self.counts, self.least = self.config.clients.late == "count", plan.min_replies
        # Any other sampler than the uniform one chooses among all that can be asked.
        self.capacity = plan.ask if isinstance(plan.draws, Uniform) else plan.clients
        self._ahead = plan.algorithm.steps_ahead if self.spec.overlap else 0
        self._trained_at = dict[int, float]()  # by client, in its last round
        self._relays = isinstance(plan.downlink, Relay)
        self.number, self.start = 0, self.now
        self.works = dict[int, InFlight]()
        self._delivered = dict[int, float]()  # by client: bits of the model that it has already
        self.leaves = dict[int, Leaves]()
        if (sampling := self.sampling) is not None:
            sampling.score = self._local_losses
            self.strategy.draws = lambda number, among, count: sampling.draw(
                number, number, among, count, self.agenda.now
            )

    def open(self, grid: Grid) -> None:
        """Over the clock's grid, where a clock is asked for, or clients may be away."""
        self.grid = TimedGrid(grid, self) if self.timed or not self.rules.plain else grid

    @property
    def exhausted(self) -> bool:
        return self.spending is not None and self.spending.left < self.least

    def collect(self, number: int, done: int) -> RoundUpdates:
        """One round, when enough clients are there; the strategy hears who they are."""
        self.number, self.start = number, self.agenda.now
        self._delivered, self.joules = {}, {}
        self.works = self.late if self.clock.exchanges else {}
        if self._selects or self.depleted:
            self.strategy.among = self._free()
        if self.sampling is not None and number == 1:
            for message in self.sampling.register(self.clock, self.timed):
                self.spend(message)
        end = self.strategy.end
        before = end.version
        settings = self.work.begin(number, self.agenda.now, done)
        messages = self.strategy.ask(number, settings, self.grid)
        self.traffic = end.traffic
        if self.timed:
            self.exchange("before")
        timeout = self.config.machine.timeout
        self.strategy.advance(self.grid.send_and_receive(messages, timeout=timeout))
        if self.timed:
            self.exchange("after")
        if end.version == before and end.traffic.uplinks:
            raise RunFailed(f"round {number}: the strategy made no model of the replies")
        if self.timed:
            self.add_server_time()
        return self.row()

    def _local_losses(
        self, number: int, clients: Sequence[int]
    ) -> tuple[dict[int, float], dict[int, int]]:
        """Asks clients for their loss at the model that they would train from.

        The losses are computed here: the clients would decode the same weights. A batch takes the
        third part of a local iteration, because a backward pass takes about two forward ones
        (Kaplan et al. 2020, Scaling laws for neural language models, section 2.1).
        """
        channel, batches = self.strategy.end, self.plan.draws.loss_batches
        losses, bits, exchanges = dict[int, float](), dict[int, int](), []
        iterations = dict[int, float]()
        for client in clients:
            began = time.perf_counter()
            loss = local_loss(self.trainer, channel.weights, client, number, batches)
            losses[client] = float(np.float32(loss))
            bits[client] = ledger.charged_bits(channel.lacks(client))
            count = batches or self.trainer.batches_of(client).an_epoch
            iterations[client] = count * FORWARD
            work = time.perf_counter() - began if self.spec.measured else iterations[client]
            seconds = work * float(self.clock.links.compute[client])
            exchanges.append(InFlight(client, number, bits[client], seconds, NUMBER_BITS))
        if self.timed:
            self._complete(exchanges, iterations)
        return losses, bits

    def exchange(self, stage: Literal["before", "after"]) -> None:
        """Exchanges with the clients of the round before its messages, or after its replies.

        The server waits for all clients with each of them.
        """
        downs = self.traffic.downlinks.items()
        sizes = {client: getattr(down, stage) for client, down in downs}
        for place in range(max(map(len, sizes.values()), default=0)):
            exchanges = [
                InFlight(client, self.number, pairs[place][0], up_bits=pairs[place][1])
                for client, pairs in sizes.items()
                if pairs
            ]
            self._complete(exchanges)

    def _complete(
        self, exchanges: Sequence[InFlight], work: Mapping[int, float] | None = None
    ) -> None:
        """Goes on until clients have answered. What the round sends lacks the bits they have.

        ``work``: by client, what it computes for its answer, in local iterations.
        """
        self.clock.complete(exchanges)
        for x in exchanges:
            self._delivered[x.client] = self._delivered.get(x.client, 0.0) + x.down_bits
            self.spend(x, work[x.client] if work else None)

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

    def _free(self) -> Sequence[int] | np.ndarray:
        """Goes on until enough clients are there; those that can be asked then."""
        while True:
            now = self.agenda.now
            if self.presence is None:
                out = {*self._busy(now), *self.depleted}
                free: Sequence[int] | np.ndarray = Without(self.plan.clients, out)
            else:
                now, free = self.presence.at(
                    now, self.number, self.least, self.capacity, self._busy, self.depleted
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

    def lose(self, client: int, reply: Message | None) -> None:
        """Books the update of a client that drops out, where it has trained and keeps nothing."""
        if reply is not None and reply.has_content() and self.strategy.end.loses(client):
            self.traffic.dropped.append(client)

    def end(self, replies: Mapping[int, Message | None]) -> list[int]:
        """Goes on to the end of the round; the clients whose reply came in time, the first first.

        ``replies``: by client that was asked, its reply; None: it never comes.
        """
        clock, rules = self.clock, self.rules
        exchanges = [self._exchange(client, reply) for client, reply in sorted(replies.items())]
        for exchange in exchanges:
            self.spend(exchange)
        coming = [exchange for exchange in exchanges if exchange.until == "arrived"]
        limit = math.inf if rules.deadline is None else self.agenda.now + rules.deadline
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
        order = rules.order(
            [exchange.ended_at for exchange in coming], self.config.seed, self.number
        )
        ended = [coming[place].client for place in order if coming[place].over]
        in_time = ended[: rules.first]
        dropped = [x.client for x in clock.exchanges.values() if x.reply is None and x.over]
        for client in [*dropped, *in_time]:
            del clock.exchanges[client]
        return in_time

    def state(self) -> dict[str, Any]:
        """The clock and the exchanges in flight between two rounds, as a checkpoint holds them."""
        exchanges = [exchange.values() for exchange in self.clock.exchanges.values()]
        state = {"clock": self.clock.state(), "exchanges": exchanges}
        return state | ({"trained_at": [*self._trained_at.items()]} if self._ahead else {})

    def restore(self, values: dict[str, Any]) -> None:
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
        tree, edges = self.spec.tree, self.traffic.edges
        if tree is None or edges is None:
            return {}
        bits = ledger.edge_down_bits(self.traffic)
        return {
            client: tree.latency + bits[group] / tree.down
            for client, group in edges.group_of.items()
        }

    def add_server_time(self) -> None:
        """The hop from edge servers, which wait for all of their clients; then the server's coding.

        All wait for its coding, one upload after the other, and the model. A server that relays
        messages codes nothing.
        """
        tree, edges, traffic = self.spec.tree, self.traffic.edges, self.traffic
        if tree is not None and edges is not None:
            ends = [self.agenda.now]
            for group, payload in edges.payloads.items():
                arrivals = [
                    work.ended_at
                    for client, work in self.works.items()
                    if work.until == "arrived" and edges.group_of[client] == group
                ]
                ends.append(max(arrivals) + tree.latency + 8 * len(payload) / tree.up)
            self.clock.to(max(ends))
        if self.spec.coding and not self._relays:
            spent = traffic.decode_seconds + traffic.downlink_seconds
            self.clock.to(self.agenda.now + self.spec.coding * spent)

    def _exchange(self, client: int, reply: Message | None) -> InFlight:
        """What a client does in this round; one whose reply is an error sends no update."""
        framing = self.spec.framing
        down = bits_down(self.traffic, client, framing) - self._delivered.get(client, 0.0)
        exchange = InFlight(client, self.number, down, until="received")
        leaves = self.leaves[client]
        if leaves == "before" or reply is None or not reply.has_content():
            return exchange
        seconds = float(self.clock.links.compute[client])
        exchange.iterations = self.traffic.downlinks[client].iterations or self.work.steps
        if self.spec.measured:
            exchange.compute_seconds = seconds * _seconds(reply, "train-seconds")
        else:
            exchange.compute_seconds = seconds * exchange.iterations
        if self._ahead and client in self._trained_at:  # since the end of the round before
            ahead = exchange.compute_seconds * self._ahead / exchange.iterations
            exchange.ready_at = self._trained_at[client] + ahead
            exchange.compute_seconds -= ahead
        if self.spec.coding:
            spent = sum(_seconds(reply, part) for part in _CODES)
            exchange.compute_seconds += self.spec.coding * spent
        if leaves:
            exchange.until = "trained"
            return exchange
        answer, exchange.up_bits = bits_back(self.traffic, client, reply, framing)
        exchange.down_bits += answer
        exchange.until, exchange.reply = "arrived", reply
        return exchange

    def row(self) -> RoundUpdates:
        """The round; the parts of its time are means over the clients that are used.

        NaN are the parts of a client that was not asked.
        """
        traffic, now, updates = self.traffic, self.agenda.now, dict[int, Update]()
        cohort = {*traffic.downlinks, *traffic.uplinks, *traffic.refused, *traffic.failures}
        for client in sorted(cohort | {*traffic.failed_bits}):
            work = self.work.work_of(client) if client in cohort else None
            parts, seconds, timing = [math.nan] * len(PARTS), None, ClientTiming()
            if (exchange := self.works.get(client)) is not None:
                parts = exchange.parts(self.start, now).tolist()
                seconds = exchange.ended_at - exchange.sent_at if exchange.over else None
            if self.counts:
                up = traffic.uplinks.get(client)
                timing.late = int(up is not None and up.earlier_round > 0)
            if self.timed:
                timing.parts = TimeParts(*parts)
            joules = self.joules.get(client, 0.0)
            updates[client] = Update(client, work, parts, seconds, timing, joules)
        row = RoundUpdates(traffic, updates, sum(self.joules.values()))
        if self.counts:
            row.timing.late = sum(x.timing.late or 0 for x in updates.values())
        if self.timed:
            row.times(self.start, now)
        return row


def _seconds(reply: Message, of: str) -> float:
    """Seconds, as the client says; 0 where it says what cannot be: its update is not used."""
    try:
        return metrics_of(reply.content).get(of, 0.0)
    except ValueError:
        return 0.0


class TimedGrid(CohortGrid):
    """A grid whose replies come when the clock of ``rounds`` has them; ``grid`` answers at once."""

    def __init__(self, grid: Grid, rounds: Rounds) -> None:
        super().__init__(grid, [])
        self.rounds = rounds
        self.numbered: range | None = getattr(grid, "numbered", None)
        self._ids = count(1)

    def get_node_ids(self) -> Iterable[int]:
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
        rounds, rules = self.rounds, self.rounds.rules
        seed = rounds.config.seed
        clients = {recipient_of(message): message for message in messages}
        leaves = rounds.leaves = rules.dropout.draw(seed, rounds.number, clients)
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
        in_time = rounds.end(replies)
        for client, when in leaves.items():
            if when:
                rounds.lose(client, replies[client])
                yield drop_error(clients[client], when)
        if not rules.late:
            return
        # Those that come later are in flight until they have.
        for client, answer in replies.items():
            if answer is None or rounds.leaves[client] or client in in_time:
                continue
            if rounds.works[client].until != "arrived":  # an error
                yield answer
                continue
            rounds.traffic.failures[client] = LATE
        for client in in_time:
            answer = replies[client]
            assert answer is not None
            yield answer

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies of earlier rounds that have come by now."""
        ids, rounds = list(message_ids), self.rounds
        held = {
            x.reply.metadata.reply_to_message_id: x
            for x in rounds.clock.exchanges.values()
            if x.reply is not None
        }
        others = [key for key in ids if key not in held]
        real = list(self._grid.pull_messages(others)) if others else []
        late, exchanges = rounds.late, [held[key] for key in ids if key in held]
        arrived = [x for x in exchanges if x.client in late and x.over]
        for exchange in arrived:
            del rounds.clock.exchanges[exchange.client]
        return [x.reply for x in arrived if x.reply is not None] + real


def recipient_of(message: Message) -> int:
    """The number of the client that a message of the server goes to."""
    return int(str(settings_in(message.content)[CLIENT]))

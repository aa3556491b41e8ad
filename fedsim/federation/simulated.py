"""A run's simulated time: who is asked, who drops out, when a round is over, and its seconds.

Which client is late follows from the lengths of the messages and from the settings alone, so that
every engine has the same rounds.
"""

from collections.abc import Sequence

import numpy as np
from flwr.app import Message

from fedsim.federation.clocked import bits_back, bits_down
from fedsim.network.pricing import SECONDS
from fedsim.network.running import Clock, Work
from fedsim.network.spec import Network, parse
from fedsim.settings.config import RunConfig
from strategies import ChannelStrategy, Relay, RoundTraffic
from strategies.channel.nodes import Without
from strategies.channel.replies import numbers_of

_NO_TIME = "compute=0s"
_CODES = ("decode-seconds", "encode-seconds")


class Simulation:
    """The clock of one run, and who is asked, drops out and is late.

    Args:
        config: the run.
        strategy: its strategy, which is told who can be asked.
        now: where the clock begins, in seconds: not at 0 where a run goes on.
    """

    def __init__(self, config: RunConfig, strategy: ChannelStrategy, now: float = 0.0) -> None:
        plan = config.plan
        self.strategy, self.rules, self.seed = strategy, plan.rules, config.seed
        self.timed, self.counts = plan.network is not None, config.clients.late == "count"
        self.clients, self.least, self.iterations = plan.clients, plan.min_replies, 0
        self.asks = plan.ask
        self.network: Network = plan.network or parse(_NO_TIME)
        self.clock = Clock(self.network.links(plan.clients, config.seed, 1.0), now)
        self._relays = isinstance(plan.downlink, Relay)
        there = plan.rules.availability
        self._there = None if there is None else there.of(plan.clients, config.seed)
        self.number, self.start = 0, now
        self.works, self.late = dict[int, Work](), dict[int, Work]()
        self.leaves: np.ndarray = np.zeros(0, "U6")  # by client: ``Leaves``

    def begin(self, number: int, iterations: int) -> None:
        """Begins a round, when enough clients are there; the strategy hears who they are."""
        self.number, self.start, self.iterations = number, self.clock.now, iterations
        self.leaves = self.rules.dropout.draw(self.seed, number, self.clients)
        self.works = dict(self.late)
        if self._there is not None or self.rules.late:
            while True:
                now = self.clock.now
                if self._there is None:
                    free: Sequence[int] | np.ndarray = Without(self.clients, self._busy(now))
                else:
                    now, free = self._there.at(now, number, self.least, self.asks, self._busy)
                self.clock.to(now)
                # An update that is counted when it comes is not waited for: the round that it is
                # for asks those who are free, and may be of late updates alone.
                if self.counts or len(free) >= self.least:
                    break
                self.clock.to(min(self.late[client].arrived for client in self._busy(now)))
            self.strategy.among = free

    def _busy(self, now: float) -> list[int]:
        return [c for c, work in self.late.items() if self.counts or work.arrived > now]

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

    def end(self, replies: dict[int, Message | None]) -> list[int]:
        """Goes on to the end of the round.

        Args:
            replies: by client that was asked, its reply; None: it never comes.

        Returns:
            The clients whose reply came in time, the first first.
        """
        asked = [self._work(client, reply) for client, reply in sorted(replies.items())]
        self.works |= {work.client: work for work in asked}
        self.clock.ask(asked)
        coming = [work for work in asked if work.until == "arrived"]
        order = self.rules.order([work.arrived for work in coming], self.seed, self.number)
        coming = [coming[place] for place in order]
        arrivals = [work.arrived for work in coming]
        end = self.rules.end(self.clock.now, arrivals, len(coming) < len(asked))
        late = [work.arrived for work in self.clock.works if work.until == "arrived"]
        if not asked and late:  # nobody could be asked: the round waits for the late
            end = self.rules.end(self.clock.now, [min(late)], False)
        self.clock.to(end)
        in_time = [work.client for work in coming if work.arrived <= end]
        return in_time[: self.rules.first]

    def add_coding_time(self) -> None:
        """The server's own coding, which all wait for: one upload after the other, and the model.

        A server that relays messages codes nothing.
        """
        if self.network.coding and not self._relays:
            spent = self.traffic.decode_seconds + self.traffic.downlink_seconds
            self.clock.to(self.clock.now + self.network.coding * spent)

    def _work(self, client: int, reply: Message | None) -> Work:
        """What a client does in this round; one whose reply is an error sends no update."""
        framing = self.network.framing
        work = Work(client, self.number, bits_down(self.traffic, client, framing))
        leaves = self.leaves[client]
        if leaves == "before" or reply is None or not reply.has_content():
            work.until = "received"
            return work
        seconds = float(self.clock.links.compute[client])
        if self.network.measured:
            work.seconds = seconds * _seconds(reply, "train-seconds")
        else:
            ordered = self.traffic.downlinks[client].iterations
            work.seconds = seconds * (ordered or self.iterations)
        if self.network.coding:
            work.seconds += self.network.coding * sum(_seconds(reply, part) for part in _CODES)
        if leaves:
            work.until = "trained"
            return work
        answer, work.up_bits = bits_back(self.traffic, client, reply, framing)
        work.down_bits += answer
        return work

    def row(self) -> dict[str, float]:
        """The round's simulated seconds; the parts are means over the clients that are used."""
        row: dict[str, float] = {}
        if self.counts:
            row["late"] = sum(up.asked > 0 for up in self.traffic.uplinks.values())
        if not self.timed:
            return row
        every = [self._parts(client) for client in self.traffic.uplinks] or [self._parts(-1)]
        parts = np.mean(every, axis=0)
        row |= {"sim_seconds": self.clock.now - self.start, "sim_end_seconds": self.clock.now}
        return row | dict(zip(SECONDS, parts.tolist(), strict=True))

    def client_row(self, client: int) -> dict[str, float]:
        """A client's parts of the round, which sum to it; NaN where it was not asked."""
        row: dict[str, float] = {}
        if self.counts:
            up = self.traffic.uplinks.get(client)
            row["late"] = int(up is not None and up.asked > 0)
        if not self.timed:
            return row
        return row | dict(zip(SECONDS, self._parts(client).tolist(), strict=True))

    def _parts(self, client: int) -> np.ndarray:
        if client not in self.works:
            return np.full(len(SECONDS), np.nan)
        return self.works[client].parts(self.start, self.clock.now)


def _seconds(reply: Message, of: str) -> float:
    """Seconds, as the client says; 0 where it says what cannot be: its update is not used."""
    try:
        return numbers_of(reply.content).get(of, 0.0)
    except ValueError:
        return 0.0

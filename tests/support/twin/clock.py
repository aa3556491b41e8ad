"""The clock: messages under way, moved on from event to event (docs/networks.md, "The clock")."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.twin.network import SAME, Network

NONE = 1e-9  # bits: what is less is nothing
Links = Sequence[tuple[Hashable, ...]]


def fair(flows: Sequence[Links], capacity: dict[Any, float]) -> list[float]:
    """Rates by max-min fairness: all grow alike, each until one of its links is full."""
    rates: list[float | None] = [None] * len(flows)
    while None in rates:
        share = {}
        for link in capacity:
            users = [i for i, links in enumerate(flows) if link in links]
            growing = [i for i in users if rates[i] is None]
            if growing:
                left = capacity[link] - sum(rates[i] or 0.0 for i in users)
                share[link] = left / len(growing)
        full = min(share, key=lambda link: share[link])
        for i, links in enumerate(flows):
            if rates[i] is None and full in links:
                rates[i] = share[full]
    return [rate or 0.0 for rate in rates]


@dataclass(frozen=True)
class Stage:
    """A step of a message's way: bits that flow over links, or seconds where there are none."""

    name: str
    amount: float
    links: Links = ()


@dataclass(eq=False)
class Work:
    """Stages, one after the other."""

    begun: float
    stages: list[Stage]
    what: Any = None  # whose, for who sent it
    ends: list[float] = field(default_factory=list)  # of the stages that are over
    left: float = 0.0  # bits of the stage that goes on

    def __post_init__(self) -> None:
        self.left = self.stages[0].amount

    @property
    def over(self) -> bool:
        return len(self.ends) == len(self.stages)

    @property
    def stage(self) -> Stage:
        """The stage that goes on."""
        return self.stages[len(self.ends)]

    @property
    def wakes(self) -> float:
        """When a stage of seconds is over."""
        return (self.ends[-1] if self.ends else self.begun) + self.stage.amount

    def finish(self, time: float) -> None:
        """The stage that goes on is over."""
        self.ends.append(time)
        if not self.over:
            self.left = self.stage.amount

    def parts(self, begin: float, end: float) -> dict[str, float]:
        """What of its work falls between two times; the rest is waiting."""
        spent = {"download": 0.0, "compute": 0.0, "upload": 0.0}
        since = self.begun
        for stage, until in zip(self.stages, [*self.ends, *[end] * 5], strict=False):
            spent[stage.name] += max(0.0, min(until, end) - max(since, begin))
            since = until
        return spent | {"waiting": end - begin - sum(spent.values())}


class Clock:
    """The time, and what is under way on the links of a network."""

    def __init__(self, network: Network) -> None:
        self.network, self.now = network, 0.0
        self.under_way: list[Work] = []

    def start(self, stages: list[Stage], what: Any = None) -> Work:
        """Something begins now."""
        self.under_way.append(Work(self.now, stages, what))
        return self.under_way[-1]

    def send(self, client: int, down: int, iterations: int | None, up: int | None) -> Work:
        """A message to a client, from now on. Bits flow at once, and have come after the latency.

        What is still on its way to one that left is given up.

        Args:
            client: to whom.
            down: its bits.
            iterations: that the client does; None where it leaves before.
            up: bits of its reply; None where it leaves before it sends.
        """
        latency = self.network.values["latency"][client]
        gone = ("left", client)
        self.under_way = [work for work in self.under_way if work.what != gone]
        links = {way: ((way, client), ("server", way)) for way in ("down", "up")}
        stages = [Stage("download", down, links["down"]), Stage("download", latency)]
        if iterations is not None:
            stages += [Stage("compute", iterations * self.network.values["compute"][client])]
        if up is not None:
            stages += [Stage("upload", up, links["up"]), Stage("upload", latency)]
        return self.start(stages, gone if up is None else None)

    def capacity(self, link: Any) -> float:
        """What a link carries now."""
        kind, which = link[:2]
        if kind == "server":
            return self.network.server[which]
        return self.network.rate(kind, which, self.now)

    def ends(self) -> list[tuple[Work, float, float]]:
        """Of what is under way: its rate (0 for seconds), and when its stage is over then."""
        going_on = [w for w in self.under_way if not w.over]
        found = [(w, 0.0, w.wakes) for w in going_on if not w.stage.links]
        flows = [w for w in going_on if w.stage.links]
        links = {link for w in flows for link in w.stage.links}
        capacity = {link: self.capacity(link) for link in sorted(links, key=str)}
        rates = fair([w.stage.links for w in flows], capacity)
        for w, rate in zip(flows, rates, strict=True):
            seconds = 0.0 if w.left <= NONE else w.left / rate if rate > 0 else math.inf
            found.append((w, rate, self.now + seconds))
        return found

    def step(self, until: float = math.inf) -> list[Work]:
        """Goes on to the next event, or until then. What is over by it, as it began."""
        ends = self.ends()
        after = min([until, self.network.next_step(self.now), *(end for _, _, end in ends)])
        for w, rate, _ in ends:
            w.left -= rate * (after - self.now) if math.isfinite(rate) else 0.0
        self.now = after
        while due := [(w, end) for w, _, end in self.ends() if end <= after + SAME * (1 + after)]:
            for w, end in due:
                w.finish(end)
        over = [w for w in self.under_way if w.over]
        self.under_way = [w for w in self.under_way if not w.over]
        return over


def first_come(work: Work) -> list[float]:
    """Of those that are over at one moment, whose last stage began first: a key to sort by."""
    return [round(time, 9) for time in [*work.ends[::-1], work.begun]]

"""A clock that goes on from round to round: who works on which message, and when uploads arrive.

A client that is late goes on with its upload while the next round has begun, and shares the
server's link with it. The clock knows what each client has left at any time; when an upload will
arrive is a forecast, which those who begin to send before that may still delay.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedsim.network.rates import Rate
from fedsim.network.sharing import left_at, transfers
from fedsim.network.spec import Links

Way = Literal["down", "up"]

PARTS = ("download", "compute", "upload", "waiting")
"""What a client spends a round on; the four sum to the round."""


@dataclass
class Work:
    """One client's work on one message; times are seconds on the clock.

    Args:
        client: its number.
        round: in which it was asked.
        down_bits: what is left of its download.
        seconds: how long it trains.
        up_bits: what is left of its upload.
        until: what it still does: a client that drops out trains no more, or sends no more.

    Attributes:
        asked: when the server sent the message.
        received: when the client had it.
        trained: when it had trained.
        arrived: when its upload was at the server; the three are forecasts while they lie ahead.
    """

    client: int
    round: int
    down_bits: float
    seconds: float = 0.0
    up_bits: float = 0.0
    until: Literal["received", "trained", "arrived"] = "arrived"
    asked: float = 0.0
    received: float = math.inf
    trained: float = math.inf
    arrived: float = math.inf
    down_end: float = math.inf  # of the transfer; its latency follows
    up_end: float = math.inf

    def parts(self, start: float, end: float) -> np.ndarray:
        """Seconds of a part of the clock: download, compute, upload, waiting; they sum to it.

        Args:
            start: where it begins.
            end: where it ends.

        Example:
            >>> work = Work(0, 1, 0, asked=0, received=1, trained=4, arrived=9)
            >>> work.parts(0, 6).tolist(), work.parts(6, 10).tolist()
            ([1, 3, 2, 0], [0, 0, 3, 1])
        """
        times = np.clip([self.asked, self.received, self.trained, self.arrived], start, end)
        busy = np.diff(times)
        return np.array([*busy, end - start - busy.sum()])


class Clock:
    """Simulated time of one run.

    Args:
        links: of all clients.
        now: where it begins, in seconds.

    Attributes:
        now: the end of the last round.
        works: those that have not ended.

    Example:
        Client 1 is late, and its last 5 bits pass while client 0 sends again:

        >>> from fedsim.network.spec import parse
        >>> clock = Clock(parse("up=inf, server_up=2bit, compute=0s").links(2, 0, 0.0))
        >>> clock.ask([Work(0, 1, 0, up_bits=4), Work(1, 1, 0, up_bits=9)])
        >>> clock.to(4.0)
        >>> clock.ask([Work(0, 2, 0, up_bits=2)])
        >>> [(work.client, work.round, work.arrived) for work in clock.works]
        [(1, 1, 7.5), (0, 2, 6.0)]
    """

    def __init__(self, links: Links, now: float = 0.0) -> None:
        self.links, self.now = links, now
        self.works: list[Work] = []

    def ask(self, works: Sequence[Work]) -> None:
        """Lets clients begin now; the forecasts of all who are at work follow.

        Of a client that left before, what is still on its way to it is given up.
        """
        for work in works:
            work.asked = self.now
        anew = {work.client for work in works}
        there = [work for work in self.works if work.until == "arrived" or work.client not in anew]
        self.works = [*there, *works]
        self._move("down", "received")
        for work in self.works:
            if work.received > self.now or work.trained == math.inf:
                work.trained = work.received + (work.until != "received") * work.seconds
            if work.until != "arrived":
                work.arrived = work.trained
        self._move("up", "arrived")

    def to(self, time: float) -> None:
        """Goes on to a time; what has ended by then is of no more interest."""
        for way in ("down", "up"):
            works = self._under_way(way)
            left = left_at(time, *self._transfers(works, way)) if works else np.zeros(0)
            for work, bits in zip(works, left, strict=True):
                vars(work)[f"{way}_bits"] = float(bits)
        self.now = time
        self.works = [work for work in self.works if work.arrived > time]

    def state(self) -> list[dict[str, Any]]:
        """What is under way, as JSON can hold it: a time that is not known is None.

        Example:
            >>> from fedsim.network.spec import parse
            >>> clock = Clock(parse("up=1bit, compute=0s").links(1, 0, 0.0))
            >>> clock.ask([Work(0, 1, 0, up_bits=4)])
            >>> clock.restore(clock.state())
            >>> clock.works[0].arrived
            4.0
        """
        return [
            {name: None if value == math.inf else value for name, value in vars(work).items()}
            for work in self.works
        ]

    def restore(self, works: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from what ``state`` returned."""
        never = math.inf
        self.works = [
            Work(**dict[str, Any]({n: never if x is None else x for n, x in work.items()}))
            for work in works
        ]

    def _move(self, way: Way, there: Literal["received", "arrived"]) -> None:
        """Forecasts when each transfer ends, and when its message is there, latency included."""
        works = self._under_way(way)
        if not works:
            return
        ends = transfers(*self._transfers(works, way))
        latency = self.links.latency[[work.client for work in works]]
        for work, end, delay in zip(works, ends, latency, strict=True):
            vars(work).update({f"{way}_end": float(end), there: float(end + delay)})

    def _under_way(self, way: Way) -> list[Work]:
        """Those whose transfer has not ended, in an order that no engine changes."""
        works = [work for work in self.works if vars(work)[f"{way}_end"] > self.now]
        works = [work for work in works if way == "down" or work.until == "arrived"]
        return sorted(works, key=lambda work: (work.client, work.round))

    def _transfers(
        self, works: Sequence[Work], way: Way
    ) -> tuple[np.ndarray, np.ndarray, list[Rate], float]:
        """Begin, bits and rates of what is left of them, and the link that they share."""
        begin = [work.asked if way == "down" else work.trained for work in works]
        bits = np.array([vars(work)[f"{way}_bits"] for work in works], float)
        own, shared = (
            (self.links.down, self.links.server_down) if way == "down"
            else (self.links.up, self.links.server_up)
        )  # fmt: skip
        rates = [own[work.client] for work in works]
        return np.maximum(np.array(begin), self.now), bits, rates, shared

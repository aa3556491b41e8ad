"""Messages that share links as they come and go: max-min fair rates on the clock of an event loop.

The event loop is simpy's, whose clock is simulated. ``sharing`` gives the same times where all
messages of one link are known beforehand; here one message's end decides when the next begins.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import simpy

from fedsim.network.rates import Rate
from fedsim.network.sharing import ROUNDED

Link = Hashable


def max_min(paths: Sequence[Sequence[Link]], capacity: Mapping[Link, float]) -> list[float]:
    """The rate of each message, where none can grow without lowering a smaller or equal one.

    The links fill up together; a message's rate stands when the first of its links is full
    (Bertsekas and Gallager, Data Networks, section 6.5.2).

    Args:
        paths: the links that each message takes.
        capacity: bits per second of every link; may be inf.

    Example:
        >>> max_min([["a", "s"], ["b", "s"], ["c"]], {"a": 1.0, "b": 9.0, "c": 2.0, "s": 5.0})
        [1.0, 4.0, 2.0]
    """
    rates, open_ = [math.inf] * len(paths), dict(enumerate(paths))
    left = dict(capacity)
    while open_:
        users: dict[Link, list[int]] = {}
        for place, path in open_.items():
            for link in path:
                users.setdefault(link, []).append(place)
        shares = {link: left[link] / len(places) for link, places in users.items()}
        full = min(shares, key=lambda link: shares[link], default=None)
        if full is None or math.isinf(shares[full]):
            break
        share = shares[full]
        for place in users[full]:
            rates[place] = share
            for link in open_.pop(place):
                left[link] = max(0.0, left[link] - share)
    return rates


@dataclass
class _Flow:
    path: tuple[Link, ...]
    left: float
    done: simpy.Event
    rate: float = 0.0
    since: float = 0.0
    end: float = math.inf


class Flows:
    """What is under way on the links of a network.

    Args:
        env: the event loop.
        rate: what a link takes, over time, in bits per second.

    Example:
        Two messages of 8 bits share a link of 4 bits per second; the second comes a second later:

        >>> env = simpy.Environment()
        >>> flows, ends = Flows(env, lambda link: Rate.constant(4.0)), []
        >>> def send(start):
        ...     yield env.timeout(start)
        ...     yield flows.send(8.0, ["link"])
        ...     ends.append(env.now)
        >>> _ = env.process(send(0.0)), env.process(send(1.0))
        >>> env.run()
        >>> ends
        [3.0, 4.0]
    """

    def __init__(self, env: simpy.Environment, rate: Callable[[Link], Rate]) -> None:
        self.env, self.rate = env, rate
        self._flows: list[_Flow] = []
        self._wake = 0

    def send(self, bits: float, path: Sequence[Link]) -> simpy.Event:
        """An event that comes when a message of so many bits has passed the links of its path."""
        done = self.env.event()
        if not bits:
            return done.succeed()
        self._flows.append(_Flow(tuple(path), float(bits), done, since=self.env.now))
        self._share()
        return done

    def _share(self) -> None:
        """Gives every message its rate from now on, and sleeps until one of these changes."""
        now = self.env.now
        rates = {link: self.rate(link) for flow in self._flows for link in flow.path}
        capacity = {link: rate.at(now) for link, rate in rates.items()}
        shares = max_min([flow.path for flow in self._flows], capacity)
        for flow, rate in zip(self._flows, shares, strict=True):
            if rate != flow.rate:  # else its end stays what it was, to the last bit
                if flow.rate and now > flow.since:
                    flow.left = max(0.0, flow.left - flow.rate * (now - flow.since))
                flow.rate, flow.since = rate, now
                flow.end = now + flow.left / rate if rate else math.inf
        changes = [rate.next_change(now) for rate in rates.values()]
        after = min([*changes, *(flow.end for flow in self._flows)], default=None)
        if after is None:
            return
        if math.isinf(after):
            raise RuntimeError("a link stays at 0 bits per second: its transfer never ends")
        self._wake += 1
        self.env.process(self._sleep(after, self._wake))

    def _sleep(self, until: float, number: int) -> simpy.events.ProcessGenerator:
        yield self.env.timeout(max(0.0, until - self.env.now))
        if number != self._wake:  # another message came or went meanwhile
            return
        ends = until * ROUNDED
        over = [flow for flow in self._flows if flow.end <= ends]
        self._flows = [flow for flow in self._flows if flow.end > ends]
        self._share()
        for flow in over:
            flow.done.succeed()

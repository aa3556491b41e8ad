"""Messages that share links as they come and go: max-min fair rates on a simulated clock.

``sharing`` gives the same times where all messages of one link are known beforehand; here one
message's end decides when the next begins.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedsim.network.agenda import Agenda, Record, plain
from fedsim.network.rates import Rate
from fedsim.network.sharing import ROUNDED, max_min

Link = str | tuple[str, int]

SLEEP, WAKE = "sleep", "wake"
"""Records of this module: ``Flows.handlers`` has what each does."""

_FLOW = np.dtype(
    [("left", float), ("rate", float), ("since", float), ("end", float), ("then", object)]
)
"""A message under way: its bits that were left at a time, its rate from then on, its end, and the
record that follows."""

_TAKES = np.dtype([("flow", int), ("link", int)])
"""The number of a message, and that of a link which it takes."""

_LINK = np.dtype([("capacity", float), ("until", float), ("rate", object)])
"""What a link takes until a time, and over time."""

_FORGET = 64
"""Links that nothing takes any more may be so many, and one for each that is taken."""


class Flows:
    """What is under way on the links of a network.

    Args:
        agenda: the clock, whose records ``SLEEP`` and ``WAKE`` are this object's.
        rate: what a link takes, over time, in bits per second.

    Attributes:
        handlers: what its records do, by name.

    Example:
        Two messages of 8 bits share a link of 4 bits per second; the second comes a second later:

        >>> agenda = Agenda()
        >>> flows = Flows(agenda, lambda link: Rate.constant(4.0))
        >>> does = flows.handlers | {
        ...     "send": lambda who: flows.send(8.0, ["link"], ("sent", who)),
        ...     "sent": lambda who: print(who, agenda.now)}
        >>> agenda.after(0.0, "send", "A"), agenda.after(1.0, "send", "B")
        (None, None)
        >>> for _ in range(10):
        ...     name, *arguments = agenda.next()
        ...     does[name](*arguments)
        A 3.0
        B 4.0
    """

    def __init__(self, agenda: Agenda, rate: Callable[[Link], Rate]) -> None:
        self.agenda, self.rate = agenda, rate
        self.handlers: dict[str, Callable[..., None]] = {SLEEP: self._sleep, WAKE: self._woken}
        self._flows: np.ndarray = np.empty(0, _FLOW)
        self._takes: np.ndarray = np.empty(0, _TAKES)
        self._links: np.ndarray = np.empty(0, _LINK)
        self._numbers = dict[Link, int]()  # of each link
        self._wake = 0

    def send(self, bits: float, path: Sequence[Link], then: Record) -> None:
        """Sends a message of so many bits over the links of its path.

        ``then``: the record of when it has passed them.
        """
        if not bits:
            self.agenda.after(0.0, *then)
            return
        for link in path:
            if link not in self._numbers:
                self._numbers[link] = len(self._numbers)
                self._links = _with(self._links, (0.0, -math.inf, self.rate(link)))
        takes = [(len(self._flows), self._numbers[link]) for link in path]
        self._takes = _with(self._takes, *takes)
        self._flows = _with(self._flows, (bits, 0.0, self.agenda.now, math.inf, then))
        self._share()

    def state(self) -> dict[str, Any]:
        """What is under way, as JSON can hold it."""
        capacity, until = (self._links[name].tolist() for name in ("capacity", "until"))
        return {
            "flows": self._flows.tolist(), "takes": self._takes.tolist(), "wake": self._wake,
            "links": [list(row) for row in zip(self._numbers, capacity, until, strict=True)],
        }  # fmt: skip

    def restore(self, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned; the agenda has its records."""
        links = [(plain(name), *times) for name, *times in values["links"]]
        self._numbers = {name: number for number, (name, *_) in enumerate(links)}
        rows = [(*times, self.rate(name)) for name, *times in links]
        self._links = _with(np.empty(0, _LINK), *rows)
        self._flows = _with(np.empty(0, _FLOW), *map(plain, values["flows"]))
        self._takes = _with(np.empty(0, _TAKES), *map(plain, values["takes"]))
        self._wake = values["wake"]

    def _share(self) -> None:
        """Gives every message its rate from now on, and sleeps until one of these changes."""
        now, flows, takes, links = self.agenda.now, self._flows, self._takes, self._links
        for link in np.flatnonzero(links["until"] <= now):
            rate = links["rate"][link]
            links["capacity"][link], links["until"][link] = rate.at(now), rate.next_change(now)
        rates = max_min(len(flows), takes["flow"], takes["link"], links["capacity"])
        changed = rates != flows["rate"]  # else an end stays what it was, to the last bit
        if changed.any():
            flows[changed] = _at(now, flows[changed], rates[changed])
        if not len(flows):
            return
        after = min(links["until"][takes["link"]].min(initial=math.inf), flows["end"].min())
        if math.isinf(after):
            raise RuntimeError("a link stays at 0 bits per second: its transfer never ends")
        self._wake += 1
        self.agenda.first(SLEEP, float(after), self._wake)

    def _sleep(self, until: float, number: int) -> None:
        self.agenda.after(max(0.0, until - self.agenda.now), WAKE, until, number)

    def _woken(self, until: float, number: int) -> None:
        if number != self._wake:  # another message came or went meanwhile
            return
        stays, takes = self._flows["end"] > until * ROUNDED, self._takes
        over, self._flows = self._flows["then"][~stays], self._flows[stays]
        self._takes = takes = takes[stays[takes["flow"]]]
        takes["flow"] = (np.cumsum(stays) - 1)[takes["flow"]]
        if len(self._links) > 2 * len(takes) + _FORGET:
            self._forget()
        self._share()
        for then in over:
            self.agenda.after(0.0, *then)

    def _forget(self) -> None:
        """Lets go of the links that nothing takes any more."""
        names = list(self._numbers)
        used, self._takes["link"] = np.unique(self._takes["link"], return_inverse=True)
        self._numbers = {names[number]: place for place, number in enumerate(used)}
        self._links = self._links[used]


def _with(rows: np.ndarray, *more: tuple[object, ...]) -> np.ndarray:
    """The rows, and some more."""
    both = np.empty(len(rows) + len(more), rows.dtype)
    both[: len(rows)] = rows
    for place, row in enumerate(more, len(rows)):
        both[place] = row
    return both


def _at(now: float, flows: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """The flows as they are now, with other rates from now on."""
    passed, seconds = np.zeros(len(flows)), now - flows["since"]
    np.multiply(flows["rate"], seconds, out=passed, where=seconds > 0)
    flows["left"] = np.maximum(0.0, flows["left"] - passed)
    flows["rate"], flows["since"], flows["end"] = rates, now, math.inf
    np.divide(flows["left"], rates, out=flows["end"], where=rates > 0)
    flows["end"] += now
    return flows

"""Messages that share links as they come and go: max-min fair rates on a simulated clock."""

import math
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np

from fedsim.network.agenda import Agenda, Record, plain_record
from fedsim.network.rates import ROUNDED, STUCK, Rate

_BELOW = 1 - 1e-9
"""Links whose share is below another by less than that are filled in a step of their own, because
the last bits depend on which of two links is full first."""


def fair(caps: np.ndarray, capacity: float) -> np.ndarray:
    """Each transfer's rate, where all share one link.

    Args:
        caps: the most that each could take alone, in bits per second, shape (k,).
        capacity: of the shared link, in bits per second; may be inf.

    Returns:
        The rates, shape (k,); none above its cap, together at most the capacity.

    Example:
        >>> fair(np.array([1.0, 10.0, 10.0]), 9.0).tolist()
        [1.0, 4.0, 4.0]
    """
    if caps.sum() <= capacity:
        return caps
    order = np.sort(caps)
    below = np.concatenate([[0.0], np.cumsum(order)[:-1]])  # what those with smaller caps take
    level = (capacity - below) / np.arange(len(order), 0, -1)
    limited = order >= level
    if not limited.any():  # together they are above the capacity by a rounding alone
        return caps
    return np.minimum(caps, level[int(np.argmax(limited))])  # of the first that gets no more


def max_min(count: int, flow: np.ndarray, link: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Each flow's rate, where flows take several links and share any of them.

    The links fill up together; a flow's rate is final when the first of its links is full. Links of
    one flow each fill in one step, as far as they are full before all shared links.

    Args:
        count: of flows.
        flow: the number of a flow for each link that it takes, shape (n,), ascending.
        link: that link's number, shape (n,).
        capacity: of each link, by number, in bits per second; may be inf.

    Returns:
        The rates, shape (count,); inf where no link limits a flow.

    Example:
        Flows 0 and 1 share link 2:

        >>> flow, link = np.array([0, 0, 1, 1]), np.array([0, 2, 1, 2])
        >>> max_min(2, flow, link, np.array([1.0, 9.0, 5.0])).tolist()
        [1.0, 4.0]
    """
    if len(link) == 2 * count and count:
        client_links, shared = link.reshape(-1, 2).T
        if (np.bincount(link)[client_links] == 1).all():
            return _stars(client_links, shared, capacity)
    rates, left = np.full(count, math.inf), capacity.copy()
    while len(link):
        users = np.bincount(link)[link]
        shares = left[link] / users
        least = shares[users > 1].min(initial=math.inf)
        before = (users == 1) & (shares < least * _BELOW)
        np.minimum.at(rates, flow[before], shares[before])
        if math.isinf(least):
            break
        if not before.any():
            full = shares.argmin()
            rates[flow[link == link[full]]] = shares[full]
        limited = np.isfinite(rates)[flow]
        taken = rates[flow[limited]]
        order = taken.argsort(kind="stable")  # as they fill one after the other
        np.subtract.at(left, link[limited][order], taken[order])
        np.maximum(left, 0.0, out=left)
        flow, link = flow[~limited], link[~limited]
    return rates


def _stars(client_links: np.ndarray, shared: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """The rates of flows that take a link of their own and then one of those that are shared."""
    rates = capacity[client_links]
    for link in np.flatnonzero(np.bincount(shared)):
        at = shared == link
        rates[at] = fair(rates[at], float(capacity[link]))
    return rates


Link = str | tuple[str, int]

SHARE, WAKE = "share", "wake"  # records of this module: ``Flows.handlers`` has what each does
_FORGET = 64  # links that nothing takes any more may be so many, and one for each that is taken


class Flows:
    """The messages under way on the links of a network.

    ``rate``: a link's capacity over time, in bits per second; ``handlers``: the functions of its
    records on the agenda, by name.

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
        self.handlers: dict[str, Callable[..., None]] = {SHARE: self._share, WAKE: self._woken}
        # Messages under way: the bits that were left at a time, the rate from then on, that time,
        # the end; and the record that follows.
        self._flows, self._then = np.empty((4, 0)), list[Record]()
        # The number of a message, and that of a link which it takes.
        self._takes: np.ndarray = np.empty((2, 0), int)
        # What a link takes, and until when; its rate over time; and its number.
        self._links, self._rates = np.empty((2, 0)), list[Rate]()
        self._numbers = dict[Link, int]()
        self._new = list[tuple[float, tuple[Link, ...], Record]]()  # of this moment
        self._wake, self._changed = 0, False

    def send(self, bits: float, path: Sequence[Link], then: Record) -> None:
        """Sends a message of so many bits over the links of its path.

        ``then``: the record of when it has passed them.
        """
        if not bits:
            self.agenda.after(0.0, *then)
            return
        self._new.append((bits, tuple(path), then))
        self._change()

    def cancel(self, then: Record) -> None:
        """Gives up the message whose record that is, if it is under way."""
        self._new = [new for new in self._new if new[2] != then]
        if then in self._then:
            stays = np.ones(len(self._then), bool)
            stays[self._then.index(then)] = False
            self._keep(stays)
            self._change()

    def state(self) -> dict[str, Any]:
        """The messages under way, as JSON can hold them."""
        return {
            "flows": self._flows.tolist(),
            "then": self._then,
            "takes": self._takes.tolist(),
            "links": self._links.tolist(),
            "numbers": list(self._numbers),
            "new": self._new,
            "changed": self._changed,
            "wake": self._wake,
        }

    def restore(self, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned; the agenda has its records."""
        self._numbers = {
            plain_record(name): number for number, name in enumerate(values["numbers"])
        }
        self._rates = [self.rate(link) for link in self._numbers]
        self._links = np.array(values["links"], float).reshape(2, -1)
        self._flows = np.array(values["flows"], float).reshape(4, -1)
        self._takes = np.array(values["takes"], int).reshape(2, -1)
        self._then, self._new = (
            [plain_record(x) for x in values[name]] for name in ("then", "new")
        )
        self._wake, self._changed = values["wake"], values["changed"]

    def _change(self) -> None:
        """Shares the links anew at the end of this moment, when all have come and gone."""
        if not self._changed:
            self._changed = True
            self.agenda.last(0.0, SHARE)

    def _share(self) -> None:
        """Gives every message its rate from now on, and wakes up when one of these changes."""
        self._changed = False
        self._begin()
        now, (capacity, until) = self.agenda.now, self._links
        for link in np.flatnonzero(until <= now * ROUNDED):
            rate = self._rates[link]
            capacity[link], until[link] = rate.at(now), rate.next_change(now)
        flow, link = self._takes
        self._set_rates(max_min(len(self._then), flow, link, capacity))
        self._wake += 1
        if not self._then:
            return
        after = min(until[self._takes[1]].min(initial=math.inf), self._flows[3].min())
        if math.isinf(after):
            raise RuntimeError(STUCK)
        self.agenda.at(max(now, float(after)), WAKE, float(after), self._wake)

    def _set_rates(self, rates: np.ndarray) -> None:
        """Gives messages their rates from now on; an end whose rate stays is what it was."""
        now, (left, rate, since, end) = self.agenda.now, self._flows
        changed = rates != rate
        passed, ends = np.zeros(len(rates)), np.full(len(rates), math.inf)
        seconds = now - since
        np.multiply(rate, seconds, out=passed, where=changed & (seconds > 0))
        np.maximum(0.0, left - passed, out=left, where=changed)
        np.divide(left, rates, out=ends, where=rates > 0)
        np.copyto(end, ends + now, where=changed)
        np.copyto(rate, rates, where=changed)
        since[changed] = now

    def _begin(self) -> None:
        """Takes up the messages that have been sent in this moment."""
        if not self._new:
            return
        now, first = self.agenda.now, len(self._then)
        for link in (link for _, path, _ in self._new for link in path):
            if link not in self._numbers:
                self._numbers[link] = len(self._numbers)
                self._rates.append(self.rate(link))
        fresh = len(self._rates) - self._links.shape[1]
        links = np.repeat([[0.0], [-math.inf]], fresh, axis=1)
        self._links = np.concatenate([self._links, links], axis=1)
        flows = [[bits, 0.0, now, math.inf] for bits, _, _ in self._new]
        self._flows = np.concatenate([self._flows, np.transpose(flows)], axis=1)
        takes = [
            [place, self._numbers[link]]
            for place, (_, path, _) in enumerate(self._new, first)
            for link in path
        ]
        pairs = np.array(takes, int).reshape(-1, 2).T
        self._takes = np.concatenate([self._takes, pairs], axis=1)
        self._then += [then for _, _, then in self._new]
        self._new = []

    def _woken(self, until: float, number: int) -> None:
        if number != self._wake:  # another message came or went meanwhile
            return
        stays = self._flows[3] > until * ROUNDED
        over = [self._then[place] for place in np.flatnonzero(~stays)]
        self._keep(stays)
        self._change()
        for then in over:
            self.agenda.after(0.0, *then)

    def _keep(self, stays: np.ndarray) -> None:
        """Lets go of the messages that do not stay."""
        self._flows = self._flows[:, stays]
        self._then = [*compress(self._then, stays.tolist())]
        self._takes = self._takes[:, stays[self._takes[0]]]
        self._takes[0] = (np.cumsum(stays) - 1)[self._takes[0]]
        if len(self._rates) > 2 * self._takes.shape[1] + _FORGET:
            self._forget()

    def _forget(self) -> None:
        """Lets go of the links that nothing takes any more."""
        names = list(self._numbers)
        used, self._takes[1] = np.unique(self._takes[1], return_inverse=True)
        self._numbers = {names[number]: place for place, number in enumerate(used)}
        self._rates = [self._rates[number] for number in used]
        self._links = self._links[:, used]

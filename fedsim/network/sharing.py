"""Transfers that share links: max-min fair rates, and when each transfer over a server's link ends.

The fair share is that of progressive filling (Bertsekas and Gallager, Data Networks, section
6.5.2): nobody's rate can grow without lowering one that is smaller or equal. ``fair`` has one
shared link, ``max_min`` any.
"""

import math
from collections.abc import Sequence

import numpy as np

from fedsim.network.rates import Rate

ROUNDED = 1 + 1e-12
"""A transfer that lacks so little of its time has ended: after many events sums are rounded, and
what is left of it by rounding would wait where its link then stands still."""

_BELOW = 1 - 1e-9
"""What lies below a share by less than that is filled in a step of its own: which of two links is
full first decides the last bits."""


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

    The links fill up together; a flow's rate stands when the first of its links is full. Links of
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


def transfers(
    starts: np.ndarray, bits: np.ndarray, rates: Sequence[Rate], capacity: float
) -> np.ndarray:
    """When each transfer ends, in seconds on the clock of `starts`.

    Between two events (a start, an end, a change of somebody's rate) every rate is constant.

    Args:
        starts: when each begins, shape (k,).
        bits: how long each message is, shape (k,).
        rates: what each link can take, over time.
        capacity: of the link that all share, in bits per second; may be inf.

    Raises:
        RuntimeError: a link stays at 0 bits per second, so that a transfer never ends.

    Example:
        >>> slow, fast = Rate.constant(2.0), Rate.constant(10.0)
        >>> transfers(np.zeros(2), np.array([8.0, 8.0]), [slow, fast], 4.0).tolist()
        [4.0, 4.0]
    """
    if (alone := _alone(rates, capacity)) is not None:
        return starts + bits / alone
    return _by_events(starts.astype(float), bits.astype(float), rates, capacity)[0]


def left_at(
    until: float, starts: np.ndarray, bits: np.ndarray, rates: Sequence[Rate], capacity: float
) -> np.ndarray:
    """The bits of each transfer that have not passed at a time; the others as for `transfers`.

    Args:
        until: the time, in seconds on the clock of `starts`.
        starts, bits, rates, capacity: as for `transfers`.

    Example:
        >>> slow, fast = Rate.constant(2.0), Rate.constant(10.0)
        >>> left_at(3.0, np.zeros(2), np.array([8.0, 8.0]), [slow, fast], 4.0).tolist()
        [2.0, 2.0]
    """
    if (alone := _alone(rates, capacity)) is not None:
        passed = np.zeros(len(bits))
        np.multiply(alone, until - starts, out=passed, where=starts < until)
        return np.maximum(bits - passed, 0.0)
    return _by_events(starts.astype(float), bits.astype(float), rates, capacity, until)[1]


def _alone(rates: Sequence[Rate], capacity: float = math.inf) -> np.ndarray | None:
    """The rates, where a transfer depends neither on the time nor on the others; else None."""
    if math.isfinite(capacity) or not all(rate.is_constant for rate in rates):
        return None
    return np.array([rate.values[0] for rate in rates])


def _by_events(
    starts: np.ndarray, left: np.ndarray, rates: Sequence[Rate], capacity: float,
    until: float = math.inf,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Goes from event to event; `left` counts down to 0. Returns the ends, and what is left."""
    ends, waiting, constant = starts.copy(), left > 0, _alone(rates)
    now = float(starts[waiting].min()) if waiting.any() else 0.0
    while waiting.any() and now < until:
        active = np.flatnonzero(waiting & (starts <= now))
        changing = [] if constant is not None else [rates[int(i)] for i in active]
        caps = [rate.at(now) for rate in changing] if constant is None else constant[active]
        shares = fair(np.array(caps), capacity)
        finish = np.full(len(active), math.inf)
        np.divide(left[active], shares, out=finish, where=shares > 0)
        finish += now
        to_start = starts[waiting & (starts > now)]
        changes = [rate.next_change(now) for rate in changing]
        after = min([*to_start, *changes, *finish, until], default=math.inf)
        if math.isinf(after):
            raise RuntimeError("a link stays at 0 bits per second: its transfer never ends")
        with np.errstate(invalid="ignore"):  # inf * 0: a message over a link without a limit
            left[active] -= shares * (after - now)
        done = active[finish <= after * ROUNDED]
        ends[done], left[done], waiting[done] = after, 0.0, False
        now = float(after)
    return ends, left

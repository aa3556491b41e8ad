"""Transfers that share links: max-min fair rates.

The fair share is that of progressive filling (Bertsekas and Gallager, Data Networks, section
6.5.2): nobody's rate can grow without lowering one that is smaller or equal.
"""

import math

import numpy as np

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

"""Progressive filling link by link, in loops: what ``max_min`` and the clock must agree with."""

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from fedsim.network.clock import Clock, Exchange
from fedsim.network.flows import max_min
from fedsim.network.rates import ConstantRates, Rate
from fedsim.network.spec import Links

Paths = Sequence[Sequence[Hashable]]


def filled(paths: Paths, capacity: Mapping[Hashable, float]) -> list[float]:
    """The rate of each message; the link that is full next is looked for among all."""
    rates, open_ = [math.inf] * len(paths), dict(enumerate(paths))
    left = dict(capacity)
    while open_:
        users: dict[Hashable, list[int]] = {}
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


def by_max_min(paths: Paths, capacity: Mapping[Hashable, float]) -> list[float]:
    """The same by ``max_min``, with names in place of numbers."""
    numbers = {link: number for number, link in enumerate(capacity)}
    pairs = [(place, numbers[link]) for place, path in enumerate(paths) for link in path]
    flow, link = np.array(pairs, int).reshape(-1, 2).T
    return max_min(len(paths), flow, link, np.array([*capacity.values()], float)).tolist()


def transfers(
    starts: Sequence[float], bits: Sequence[float], rates: Sequence[Rate], capacity: float
) -> list[float]:
    """When uploads end that begin at `starts`, over links of their own and one that all share."""
    free, none = ConstantRates(np.full(len(starts), math.inf)), np.zeros(len(starts))
    clock: Clock[Exchange] = Clock(Links(rates, free, none, none, capacity, math.inf))
    sent = [
        Exchange(client, 1, compute_seconds=float(start), up_bits=float(length))
        for client, (start, length) in enumerate(zip(starts, bits, strict=True))
    ]
    clock.send(sent)
    clock.wait(sent, len(sent))
    return [exchange.ended_at for exchange in sent]


def known_beforehand(
    starts: np.ndarray, bits: np.ndarray, rates: Sequence[Rate], capacity: float
) -> list[float]:
    """The same in loops, from event to event: a start, an end, a change of somebody's rate."""
    left, ends, now = bits.astype(float), starts.astype(float), 0.0
    while (left > 0).any():
        active = [i for i in range(len(bits)) if left[i] > 0 and starts[i] <= now]
        caps = {f"{i}": rates[i].at(now) for i in active} | {"all": capacity}
        shares = filled([(f"{i}", "all") for i in active], caps)
        after = min(
            [
                *(now + left[i] / share for i, share in zip(active, shares, strict=True) if share),
                *(start for start in starts if start > now),
                *(rates[i].next_change(now) for i in active),
            ]
        )
        for i, share in zip(active, shares, strict=True):
            left[i] -= share * (after - now)
            if left[i] <= 1e-9:
                left[i], ends[i] = 0.0, after
        now = after
    return ends.tolist()

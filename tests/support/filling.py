"""Progressive filling link by link, in loops: what ``fair`` and ``max_min`` must agree with."""

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from fedsim.network.sharing import max_min

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

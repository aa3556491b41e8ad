"""Robust aggregation: rules that a minority of lying clients moves little.

Every client counts once. Weights by samples have no place here: a client that lies would choose its
own weight.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from compressors import State, Tensors
from compressors.base import empty_like
from strategies.algorithms.base import Algorithm, RoundInfo, Step, Uplinks
from strategies.algorithms.requirements import Setup, Unmet
from strategies.channel.traffic import mean


@dataclass(frozen=True)
class Median(Algorithm):
    """The median of the clients' updates, entry by entry.

        w' = w + med_k(u_k)

    Here u_k is the decoded update of client k. For an even number of updates the median is the mean
    of the two in the middle.

    Source: Yin et al. 2018 (Byzantine-robust distributed learning,
    https://arxiv.org/abs/1803.01498), Definition 1.

    Example:
        >>> from strategies import build
        >>> from compressors import Raw
        >>> build(Median(), Raw(), clients=5).rule
        Median()
    """

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        def middle(ordered: Tensor) -> Tensor:
            low, high = (len(ordered) - 1) // 2, len(ordered) // 2
            return (ordered[low] + ordered[high]) / 2

        return _by_entry(uplinks, model, middle), state


def cuts_off_one(algorithm: "TrimmedMean", setup: Setup) -> Unmet | None:
    """A round has so many updates that one at each end is cut off."""
    if setup.cohort is not None and not algorithm.trimmed(setup.cohort):
        reason = f"cuts off the share {algorithm.beta:g} at each end, here less than one update"
        return Unmet("cohort", reason, f"{math.ceil(1 / algorithm.beta)} at least")
    return None


@dataclass(frozen=True)
class TrimmedMean(Algorithm):
    """The mean of the clients' updates without the largest and the smallest, entry by entry.

        k = floor(beta m)
        w' = w + sum_{i = k + 1}^{m - k} u_(i) / (m - 2 k)

    Here u_(1) <= ... <= u_(m) are the m clients' values of an entry. So it withstands k clients
    that lie: as many as there can be, if at most the share beta lies.

    Args:
        beta: the share that is cut off at each end, in (0, 1/2).

    Raises ``ValueError`` for another beta.

    Source: Yin et al. 2018 (Byzantine-robust distributed learning,
    https://arxiv.org/abs/1803.01498), Definition 2.

    Example:
        >>> TrimmedMean(0.1).trimmed(10), TrimmedMean(0.29).trimmed(100)
        (1, 29)
    """

    requires = (cuts_off_one,)
    beta: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.beta < 0.5:
            raise ValueError(f"beta is {self.beta}: 0 < beta < 0.5")

    def trimmed(self, updates: int) -> int:
        """k: how many of so many updates are cut off at each end."""
        return int(self.beta * updates + 1e-9)  # 0.29 * 100 is below 29 in floats

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        k = self.trimmed(len(uplinks))
        middle = slice(k, len(uplinks) - k)
        return _by_entry(uplinks, model, lambda ordered: ordered[middle].mean(0)), state


def enough_for_krum(algorithm: "Krum", setup: Setup) -> Unmet | None:
    """More than 2 f + 2 clients take part in a round, and no more than n - f are averaged."""
    f, m, n = algorithm.f, algorithm.m, setup.cohort
    if n is not None and n < 2 * f + 3:
        return Unmet("cohort", f"with f = {f} needs more than 2 f + 2 clients", f"{2 * f + 3}")
    if n is not None and m > n - f:
        reason = f"would take a mean of m = {m} updates, where f = {f} may lie"
        return Unmet("cohort", reason, f"m of {n - f} at most")
    return None


@dataclass(frozen=True)
class Krum(Algorithm):
    """The update with the smallest score, or the mean of the m updates with the smallest scores.

        s_k = sum_{j near k} |u_k - u_j|^2
        w' = w + sum_{k in M} u_k / m

    Here u_k is the decoded update of client k, n their number, j goes over the n - f - 2 other
    updates that are nearest to u_k, and M are the m clients with the smallest s. Of equal scores
    the client with the lower number is first. A round with fewer than 2 f + 3 updates leaves the
    model as it is: nothing could be said of them.

    Args:
        f: how many clients may lie.
        m: of how many updates the mean is taken: 1 is Krum, more is Multi-Krum.

    Raises ``ValueError`` for f below 0 and m below 1.

    Source: Blanchard et al. 2017 (Machine learning with adversaries,
    https://arxiv.org/abs/1703.02757), Section 4; m: Section 5.

    Example:
        >>> from strategies import build
        >>> from compressors import Raw
        >>> build(Krum(f=3), Raw(), clients=10).rule
        Krum(f=3, m=1)
    """

    requires = (enough_for_krum,)
    f: int = 1
    m: int = 1

    def __post_init__(self) -> None:
        for name, value, least in (("f", self.f, 0), ("m", self.m, 1)):
            if not (isinstance(value, int) and value >= least):
                raise ValueError(f"{name} is {value}: a whole number, {least} at least")

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        updates = [up.update for up in uplinks.values()]
        if len(updates) < 2 * self.f + 3:
            return empty_like(model), state
        near = squared_distances(updates).sort(1).values[:, 1 : len(updates) - self.f - 1]
        scores = near.sum(1).tolist()  # near is without the update itself, which is first
        best = sorted(range(len(updates)), key=lambda k: (scores[k], k))[: self.m]
        return mean([updates[k] for k in sorted(best)], [1.0] * len(best)), state


def squared_distances(updates: Sequence[Tensors]) -> Tensor:
    """The squared L2 distances of all pairs of updates, (n, n) in float64, on the CPU.

    Example:
        >>> squared_distances([{"w": torch.tensor([0.0])}, {"w": torch.tensor([3.0])}]).tolist()
        [[0.0, 9.0], [9.0, 0.0]]
    """
    n = len(updates)
    total = torch.zeros(n, n, dtype=torch.float64, device="cpu")
    for name in updates[0]:
        rows = torch.stack([update[name].flatten() for update in updates])
        for k in range(n - 1):  # differences, not products: equal updates are exactly 0 apart
            distances = (rows[k + 1 :].double() - rows[k].double()).square().sum(1).cpu()
            total[k, k + 1 :] += distances
            total[k + 1 :, k] += distances
    return total


def _by_entry(
    uplinks: Uplinks, model: Tensors, rule: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    """By tensor, ``rule`` of the clients' values in ascending order, (clients, entries of it)."""
    updates = [up.update for up in uplinks.values()]
    return {n: rule(torch.stack([u[n] for u in updates]).sort(0).values) for n in model}

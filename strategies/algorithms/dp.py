"""Central differential privacy: clipped updates, and Gaussian noise on their sum at the server.

A round that adds noise of standard deviation z C to a sum that one client moves by C at most is a
Gaussian mechanism of noise multiplier z. Rounds of multipliers z_1, z_2, ... are together one of
``mu = sqrt(sum of 1 / z_t^2)``, with equality, also where what is asked in a round follows from the
rounds before it.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from compressors import State, Tensors, derive
from compressors.base import empty_like
from strategies.algorithms.base import Algorithm, RoundInfo, Step, Uplinks
from strategies.algorithms.requirements import Setup, Unmet

CLIP = "clip"  # in the server's state: the bound on norms of the next round, where that adapts


def no_orders(algorithm: object, setup: Setup) -> Unmet | None:
    """Nobody orders what clients do by what these report without noise."""
    if setup.moves:
        reason = "adds noise to updates alone, and orders follow from what clients report without"
        return Unmet("moves", reason)
    return None


def enough_for_counts(algorithm: "DP", setup: Setup) -> Unmet | None:
    """The noise on the count of short updates leaves some of the noise for the updates."""
    if setup.cohort is None or algorithm.quantile is None:
        return None
    noise = algorithm.count_noise_of(setup.cohort)
    if algorithm.noise < 2 * noise:
        return None
    reason = (
        f"has noise {algorithm.noise:g}, of which the count of short updates with count_noise "
        f"{noise:g} takes all: count_noise is above half of noise"
    )
    has_count_noise = algorithm.count_noise is not None
    fewest = f"{math.floor(10 * algorithm.noise) + 1} at least, or a count_noise"
    return Unmet("cohort", reason, "a larger count_noise" if has_count_noise else fewest)


@dataclass(frozen=True)
class DP(Algorithm):
    """The sum of clipped updates with Gaussian noise, over the clients of a cohort (DP-FedAvg).

        w' = w + (sum_k u_k min(1, C / |u_k|) + N(0, (z C)^2 I)) / m

    Here u_k is the update of client k as the server decoded it, C the bound on its norm, z the
    noise multiplier, and m the cohort, which stays where fewer reply.

    With a quantile gamma the bound follows the updates, and z_u takes the place of z above, so that
    both noises together are as private as z, where

        b = (sum_k (1[|u_k| <= C] - 1/2) + N(0, sigma_b^2)) / m + 1/2
        C' = C exp(-clip_lr (b - gamma))
        z_u = (z^-2 - (2 sigma_b)^-2)^(-1/2)

    Who sees all models learns whether a client's updates are in the sums as from one Gaussian
    mechanism of ``mu = sqrt(T) / z`` after T rounds (``delta_of``), with zeros in their place
    otherwise (zero-out adjacency: the other clients of a round are the same). With another client
    in its place, or other data of its own, it is ``mu = 2 sqrt(T) / z``. That is the worst case
    over clients, one that is in every round: nothing is claimed for cohorts that are drawn.

    The noise follows from the run's seed. So a run can be made again, and whoever has the seed can
    take the noise away: epsilon is what the noise would promise, if it were secret.

    Args:
        noise: z, the noise multiplier.
        clip: C, the bound on an update's L2 norm; with a quantile the first round's.
        delta: for which epsilon is reported, in (0, 1).
        quantile: gamma, the share of updates that is to be shorter than C, in [0, 1]; None: C
            stays.
        clip_lr: how quickly C follows.
        count_noise: sigma_b, of the number of short updates; None: the cohort over 20.

    Raises ``ValueError`` for a value outside of that, and for a noise, clip, clip_lr or count_noise
    that is not above 0.

    Source: McMahan et al. 2018 (Learning differentially private recurrent language models,
    https://arxiv.org/abs/1710.06963), Algorithm 1, with the estimator of a fixed denominator;
    quantile: Andrew et al. 2021 (Differentially private learning with adaptive clipping,
    https://arxiv.org/abs/1905.03871), Algorithm 1 and Theorem 1.

    Example:
        >>> round(DP(noise=10.0, clip=0.5).epsilon(100), 2)
        4.38
    """

    requires = (no_orders, enough_for_counts)
    refuses_buffers = "clients would send without noise"
    noise: float = 1.0
    clip: float = 0.1
    delta: float = 1e-5
    quantile: float | None = None
    clip_lr: float = 0.2
    count_noise: float | None = None

    def __post_init__(self) -> None:
        for name in ("noise", "clip", "clip_lr", "count_noise"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} is {value}: a number above 0")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta}: 0 < delta < 1")
        if self.quantile is not None and not 0 <= self.quantile <= 1:
            raise ValueError(f"quantile is {self.quantile}: 0 <= quantile <= 1")
        if self.quantile is None and (self.clip_lr, self.count_noise) != (0.2, None):
            raise ValueError("clip_lr and count_noise go with a quantile, by which clip adapts")

    def epsilon(self, rounds: int) -> float | None:
        return epsilon_of(math.sqrt(rounds) / self.noise, self.delta)

    def count_noise_of(self, cohort: int) -> float:
        """sigma_b, as given or the cohort over 20 (Andrew et al. 2021, Section 3.1)."""
        return cohort / 20 if self.count_noise is None else self.count_noise

    def update_noise(self, cohort: int) -> float:
        """The multiplier of the noise on the updates: z, or more where a count has a part of it."""
        if self.quantile is None:
            return self.noise
        return (self.noise**-2 - (2 * self.count_noise_of(cohort)) ** -2) ** -0.5

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        cohort = info.cohort or info.clients
        clip = float(state[CLIP]) if CLIP in state else self.clip
        total = empty_like(model)
        for up in uplinks.values():
            factor = min(1.0, clip / up.norm) if up.norm > 0 else 1.0
            for name, x in up.update.items():
                total[name].add_(x, alpha=factor)
        draws = torch.Generator().manual_seed(derive(info.seed, "dp noise", info.number))
        deviation = self.update_noise(cohort) * clip
        update = {name: (x + deviation * _normal(x, draws)) / cohort for name, x in total.items()}
        if self.quantile is None:
            return update, state
        short = sum(up.norm <= clip for up in uplinks.values()) - len(uplinks) / 2
        drawn = float(torch.randn((), generator=draws, dtype=torch.float64, device="cpu"))
        share = (short + self.count_noise_of(cohort) * drawn) / cohort + 0.5
        moved = clip * math.exp(-self.clip_lr * (share - self.quantile))
        return update, {CLIP: torch.tensor(moved, dtype=torch.float64, device="cpu")}


def _normal(x: Tensor, draws: torch.Generator) -> Tensor:
    """Standard normal numbers of a tensor's shape, the same on every device."""
    drawn = torch.randn(x.shape, generator=draws, dtype=torch.float32, device="cpu")
    return drawn.to(x.device, x.dtype)


_FAR = 200  # halvings of an interval: more than a float has digits


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta with which a Gaussian mechanism is (epsilon, delta)-private.

    ``delta = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu)``

    Args:
        mu: above 0: the sensitivity over the noise's standard deviation, of several rounds together
            ``sqrt(sum of 1 / z_t^2)``.
        epsilon: 0 at least.

    Source: Balle & Wang 2018 (Improving the Gaussian mechanism for differential privacy,
    https://arxiv.org/abs/1805.06530), Theorem 8; several rounds: Dong, Roth & Su 2022 (Gaussian
    differential privacy, https://arxiv.org/abs/1905.02383), Corollary 3.3.

    Example:
        >>> round(delta_of(1.0, 1.0), 6)
        0.126937
    """
    one, other = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    first, second = _log_cdf(one), epsilon + _log_cdf(other)
    return max(0.0, math.exp(first) - math.exp(min(second, first)))


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon with which a Gaussian mechanism is (epsilon, delta)-private.

    Args:
        mu: as ``delta_of``; 0: nothing was released.
        delta: in (0, 1).

    Returns epsilon; where its last digit is open, the larger.

    Example:
        >>> round(epsilon_of(1.0, 1e-5), 4)
        4.3772
    """
    if mu == 0 or delta_of(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_of(mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(_FAR):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if delta_of(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def _log_cdf(x: float) -> float:
    """log Phi(x), of the standard normal distribution."""
    return float(torch.special.log_ndtr(torch.tensor(x, dtype=torch.float64, device="cpu")))

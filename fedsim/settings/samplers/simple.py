"""Samplers that learn nothing: uniform, by numbers of samples, and by links."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.settings.samplers.base import (
    LINKS,
    SAMPLES,
    DrawInfo,
    Sampler,
    SamplerMemory,
    smallest,
    weighted,
)


@dataclass(frozen=True)
class Uniform(Sampler):
    """Every client with the same probability: the default, whose draws a run makes by itself.

        P(i) = m / M

    Here P(i) is the probability that client i takes part in a round of m clients, and M the
    number of clients that can be asked.

    Source: McMahan et al. 2017 (FedAvg), Algorithm 1.
    """


@dataclass(frozen=True)
class Weighted(Sampler):
    """Clients without replacement, one after the other with probability by numbers of samples.

        P(next is i) = n_i / sum_j n_j

    Here n_i is the number of samples of client i; the sum is over the clients that are left.

    Args:
        by: ``samples``.

    Source: the draw, Efraimidis & Spirakis 2006, algorithm A. Weights by samples in the draw and
    equal ones in the mean: Li et al. 2020 (On the convergence of FedAvg on non-IID data), scheme I,
    which draws with replacement; here no client is drawn twice.
    """

    by: str

    def __post_init__(self) -> None:
        if self.by != "samples":
            raise ValueError(f"weighted: by is {self.by!r}: give samples")

    @property
    def needs(self) -> tuple[str, ...]:
        """The numbers of samples."""
        return (SAMPLES,)

    def draw(self, info: DrawInfo, memory: SamplerMemory) -> Sequence[int]:
        return weighted(info, info.samples, info.count)


@dataclass(frozen=True)
class ByLink(Sampler):
    """The clients whose links carry a dense model down and up soonest, latency included.

        T_i = b / d_i + b / u_i + 2 l_i

    Here b is the size of the model in bits, d_i and u_i are the rates of client i's links now, and
    l_i is its latency in seconds. The clients with the smallest T_i take part. A lot decides
    between equal times.

    Args:
        first: ``fastest``.

    Source: this project; clients by their links are those of Nishio & Yonetani 2019 (FedCS), which
    takes as many as a deadline allows.
    """

    first: str

    def __post_init__(self) -> None:
        if self.first != "fastest":
            raise ValueError(f"link: first is {self.first!r}: give fastest")

    @property
    def needs(self) -> tuple[str, ...]:
        """The links."""
        return (LINKS,)

    def draw(self, info: DrawInfo, memory: SamplerMemory) -> Sequence[int]:
        order = np.lexsort((info.lots(), info.transfer_seconds))
        places = np.empty(len(order))
        places[order] = np.arange(len(order))
        return smallest(info.candidates, places, info.count)

"""Controllers that go by the clock of the run alone: no client reports anything."""

from dataclasses import dataclass
from typing import ClassVar

from fedsim.settings.controllers.base import Action, Memory, Observation
from fedsim.settings.named import check_fraction, check_whole_number


@dataclass(frozen=True)
class FixedController:
    """n and p as typed: the same training as without a controller, and the orders' bits more.

        n_t = n,  p_t = p

    Here n is ``--temporal``, p is ``--gradient``, and t the round.

    Source: this project; what the others are compared with.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[tuple[str, ...]] = ()

    def choose(self, observation: Observation, memory: Memory) -> tuple[Action, Memory]:
        return observation.base, memory


@dataclass(frozen=True)
class Warmup:
    """A fraction that falls exponentially from ``first`` to ``--gradient`` over ``rounds`` rounds.

        p_t = max(p, p (first / p)^max(0, 1 - (t - 1) / rounds))

    Here p is ``--gradient``, and t = 1, 2, ... the round.

    Source: Lin et al. 2018 (Deep Gradient Compression), section 3.3, who go in stages of an epoch.

    Args:
        rounds: after so many rounds the fraction is ``--gradient``.
        first: the fraction of the first round, in (0, 1].

    Example:
        >>> Warmup(2, first=0.16).fraction(0.01, 1), Warmup(2, first=0.16).fraction(0.01, 2)
        (0.16, 0.04)
    """

    needs: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[tuple[str, ...]] = ("p",)
    rounds: int
    first: float = 0.25

    def __post_init__(self) -> None:
        check_whole_number("warmup: rounds", self.rounds)
        check_fraction("warmup: first", self.first)

    def fraction(self, p: float, round_number: int) -> float:
        """The fraction of one round (1, 2, ...)."""
        left = max(0.0, 1 - (round_number - 1) / self.rounds)
        return max(p, float(p * (self.first / p) ** left))

    def choose(self, observation: Observation, memory: Memory) -> tuple[Action, Memory]:
        return Action(observation.n, self.fraction(observation.p, observation.round)), memory


@dataclass(frozen=True)
class DelayFirst:
    """Long delays and dense messages first; after the learning rate drops n = 1 and few entries.

        n_t = min(round(1 / s), longest, left),  p_t = min(1, n_t s)    (while left > 0)
        n_t = 1,  p_t = s                                               (afterwards)

    Here s = p / n is the total sparsity of ``--gradient`` and ``--temporal``, which both phases
    have, and left the number of iterations before the phases change; n_t is 1 at least.

    Source: Sattler et al. 2018 (Sparse Binary Compression), conclusion: temporal sparsity does
    better before the rate is lowered and gradient sparsity after it. The formula is this project's.

    Args:
        at: the share of the run's iterations at which the phases change; 0: at the first drop of
            the task's learning rate, and half-way where the rate never drops.
        longest: the most local iterations of a round of the first phase.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[tuple[str, ...]] = ("n", "p")
    at: float = 0.0
    longest: int = 100

    def __post_init__(self) -> None:
        if self.at:
            check_fraction("delay_first: at", self.at)
        check_whole_number("delay_first: longest", self.longest)

    def change(self, observation: Observation) -> float:
        """The iteration at which the second phase begins."""
        if self.at:
            return round(self.at * observation.iterations, 9)  # 0.07 * 100 is 7.000000000000001
        drops = [drop for drop in observation.rate_drops if drop < observation.iterations]
        return drops[0] if drops else observation.iterations / 2

    def choose(self, observation: Observation, memory: Memory) -> tuple[Action, Memory]:
        sparsity = observation.p / observation.n
        left = self.change(observation) - observation.iteration
        if left > 0:
            n = min(max(1, round(1 / sparsity)), self.longest, max(1, round(left)))
            return Action(n, min(1.0, n * sparsity)), memory
        return Action(1, sparsity), memory

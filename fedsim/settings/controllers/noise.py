"""A controller that goes by whether successive global updates agree."""

from dataclasses import dataclass
from typing import ClassVar

from fedsim.settings.controllers.base import (
    AGREEMENT,
    Action,
    Memory,
    Observation,
    check_whole_number,
)


@dataclass(frozen=True)
class Noise:
    """n halves where noise decides the direction of the global updates.

        S = sum_t <D_t, D_{t-1}> / (|D_t| |D_{t-1}|)
        n' = max(least, floor(n / 2))    (where S < 0 after ``burn`` rounds or more)

    Here D_t is the global update of round t, and the sum is over the rounds since n last changed. A
    ``least`` above ``--temporal`` counts as that.

    While the gradient's mean is larger than its noise, successive updates point one way and their
    inner products are positive; where noise dominates, the model goes back and forth and the sum of
    the products falls below zero (Pflug's statistic).

    Source: Chee & Toulis 2018 (Convergence diagnostics for stochastic gradient descent with
    constant learning rate), section 3, who sum the inner products themselves, and
    stop there, or lower the learning rate.

    Args:
        burn: rounds before the sum is looked at.
        least: the smallest n.
    """

    needs: ClassVar[tuple[str, ...]] = (AGREEMENT,)
    moves: ClassVar[tuple[str, ...]] = ("n",)
    burn: int = 10
    least: int = 1

    def __post_init__(self) -> None:
        check_whole_number("noise: burn", self.burn)
        check_whole_number("noise: least", self.least)

    def choose(self, observation: Observation, memory: Memory) -> tuple[Action, Memory]:
        first = {"n": observation.n, "rounds": 0, "sum": 0}
        n, rounds, total = (memory.get(k, v) for k, v in first.items())
        if observation.agreement is not None:
            rounds, total = rounds + 1, total + observation.agreement
        if rounds >= self.burn and total < 0:
            n, rounds, total = max(min(self.least, observation.n), n // 2), 0, 0
        return Action(n, observation.p), {"n": n, "rounds": rounds, "sum": total}

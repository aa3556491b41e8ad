"""A controller that communicates more where training stays."""

import math
from dataclasses import dataclass
from typing import ClassVar

from fedsim.settings.controllers.base import (
    Action,
    Memory,
    Observation,
    check_above_zero,
    check_fraction,
    check_whole_number,
)


@dataclass(frozen=True)
class Plateau:
    """n halves and p doubles where the training loss has not fallen for ``patience`` rounds.

        n_t = max(1, round(n / factor^j)),  p_t = max(p, min(most, p factor^j))
        j' = j + 1    (after ``patience`` rounds without F < B - better |B|)

    Here n is ``--temporal``, p is ``--gradient``, j counts the changes from 0, F is the mean
    training loss of a round, and B the best one of the rounds since n and p last changed: the loss
    of few local iterations is another loss than that of many. n ends at 1 and p at ``most``.

    Source: this project, after the rule by which learning rates are lowered.

    Args:
        patience: rounds without a better loss.
        factor: what n is divided by and p multiplied with.
        better: by which share of the best loss a loss is better.
        most: the largest p.
    """

    needs: ClassVar[tuple[str, ...]] = ("train_loss",)
    moves: ClassVar[tuple[str, ...]] = ("n", "p")
    patience: int = 10
    factor: float = 2.0
    better: float = 0.01
    most: float = 1.0

    def __post_init__(self) -> None:
        check_whole_number("plateau: patience", self.patience)
        check_above_zero("plateau: factor", self.factor)
        check_fraction("plateau: better", self.better)
        check_fraction("plateau: most", self.most)
        if self.factor <= 1:
            raise ValueError(f"plateau: factor is {self.factor!r}: give a number above 1")

    def choose(self, observation: Observation, memory: Memory) -> tuple[Action, Memory]:
        steps, bad, best = memory.get("steps", 0), memory.get("bad", 0), memory.get("best")
        loss = observation.train_loss
        share = math.copysign(self.better, 0.0 if best is None else best)  # a loss may be negative
        if loss is not None and (best is None or loss < best * (1 - share)):
            best, bad = loss, 0
        elif loss is not None:
            bad += 1
        choice = self.after(steps, observation)
        if bad >= self.patience:
            steps, bad, best = steps + (choice.n > 1 or choice.p < self.most), 0, None
            choice = self.after(steps, observation)
        return choice, {"steps": steps, "bad": bad, "best": best}

    def after(self, steps: int, observation: Observation) -> Action:
        """n and p after so many changes."""
        try:
            times = float(self.factor) ** steps
        except OverflowError:  # older checkpoints counted on where n and p had ended
            times = math.inf
        n = max(1, round(observation.n / times))
        return Action(n, max(observation.p, min(self.most, observation.p * times)))

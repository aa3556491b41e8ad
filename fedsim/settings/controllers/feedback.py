"""Controllers that go by how training goes: the loss, or whether successive updates agree."""

import math
from dataclasses import dataclass
from typing import ClassVar

from fedsim.settings.controllers.base import AGREEMENT, Action, Memory, Observation
from fedsim.settings.named import check_above_zero, check_fraction, check_whole_number


@dataclass(frozen=True)
class AdaComm:
    """n follows the square root of the training loss, and changes every so many iterations.

        N = ceil(sqrt(F / F_0) n_0)
        n' = max(1, N)               (where N < n)
        n' = max(1, floor(n / 2))    (else)

    Here n_0 is ``--temporal``, F the mean training loss that clients report, and F_0 the first one.
    So n never grows. After a round that nobody reported n waits for the next.

    Source: Wang & Joshi 2019 (Adaptive communication strategies to achieve the best error-runtime
    trade-off in local-update SGD), equations 16 and 17, at a constant learning rate. Their interval
    is wall-clock time; here it is local iterations, so that the same seed gives the same run.

    Args:
        every: local iterations from one change to the next.
    """

    needs: ClassVar[tuple[str, ...]] = ("train_loss",)
    moves: ClassVar[tuple[str, ...]] = ("n",)
    every: int

    def __post_init__(self) -> None:
        check_whole_number("adacomm: every", self.every)

    def choose(self, observation: Observation, memory: Memory) -> tuple[Action, Memory]:
        n, first, loss = memory.get("n", observation.n), memory.get("first"), observation.train_loss
        turn, now = memory.get("turn", 0), observation.iteration // self.every
        if first is None:
            first = loss
        elif loss is not None and now > turn and first > 0:
            proposal = math.ceil(math.sqrt(max(0.0, loss) / first) * observation.n)
            n = max(1, proposal if proposal < n else n // 2)
        turn = turn if loss is None else max(turn, now)  # of a round that nobody reported
        return Action(n, observation.p), {"n": n, "first": first, "turn": turn}


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
        times = float(self.factor) ** steps
        n = max(1, round(observation.n / times))
        return Action(n, max(observation.p, min(self.most, observation.p * times)))

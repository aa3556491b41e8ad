"""The goal of a search, and the value of a learning curve by it."""

import math
from dataclasses import dataclass

from fedsim.ground import units
from fedsim.ground.errors import UsageError
from fedsim.network.rates import ROUNDED

SATURATED = (
    "saturated: no {name} can be above that of the best trials; of these, fewer bits are better"
)

NOT_REACHED = 100.0
"""A loss above that of any curve that reaches its target: logarithms of bits are far below."""

STEPS = 16
_PER_OCTAVE = 4


@dataclass(frozen=True)
class Curve:
    """A run's evaluations, in order.

    Attributes:
        bits: of a client by each (wire): those that it had sent, or both ways.
        metric: the score of each.
        losses: the task's mean loss over the samples that were scored; empty: not known.
    """

    bits: tuple[float, ...]
    metric: tuple[float, ...]
    losses: tuple[float, ...] = ()

    def within(self, bits: float) -> int | None:
        """The place of the last evaluation within so many bits; None: there is none."""
        places = [place for place, sent in enumerate(self.bits) if sent <= bits * ROUNDED]
        return places[-1] if places else None

    def reaches(self, target: float, higher: bool) -> int | None:
        """The place of the first evaluation that reaches the target; None: none does."""
        sign = 1 if higher else -1
        places = (place for place, score in enumerate(self.metric) if sign * score >= sign * target)
        return next(places, None)


@dataclass(frozen=True)
class Goal:
    """The best metric within ``budget`` bits, the fewest bits to ``target``, or the front of both.

    Attributes:
        higher: whether a higher metric is better.
        name: what the metric is called.
        budget: bits of a client; None: no budget.
        target: the metric to reach; None: no target. Without either the front is searched for.
        budget_of: which bits count: ``up``, or ``total``: those of both ways.

    Raises:
        UsageError: both are given, or the target cannot be reached by any model.
    """

    higher: bool
    name: str
    budget: float | None = None
    target: float | None = None
    budget_of: str = "up"

    def __post_init__(self) -> None:
        if self.budget is not None and self.target is not None:
            raise UsageError(
                f"--budget is {units.round_bits(self.budget)} and --target {self.target:g}: give "
                "one of them, or neither for the front"
            )
        wrong = self.target is not None and not math.isfinite(self.target)
        if self.target is not None and self.name in units.FRACTIONS:
            wrong = not 0 < self.target <= 1
        if wrong:
            raise UsageError(
                f"--target is {self.target}: {self.name} lies in (0, 1]"
                if self.name in units.FRACTIONS
                else f"--target is {self.target}: give a number"
            )

    @property
    def front(self) -> bool:
        """Whether bits and metric are searched at once."""
        return self.budget is None and self.target is None

    @property
    def ways(self) -> str:
        """Which bits of a client count, in words."""
        return "both ways" if self.budget_of == "total" else "upstream"

    def words(self) -> str:
        """The goal in words."""
        if self.budget is not None:
            within = units.round_bits(self.budget)
            return f"best {self.name} within {within} per client {self.ways}"
        bits = f"{'' if self.budget_of == 'total' else 'upstream '}bits per client"
        bits += " both ways" if self.budget_of == "total" else ""
        if self.target is not None:
            return f"fewest {bits} to {self.name} {self.target:g}"
        return f"front of {self.name} and {bits}"

    def point(self, curve: Curve) -> tuple[float, float] | None:
        """Bits and metric of the evaluation by which a curve is judged; None: there is none.

        Example:
            >>> curve = Curve((100.0, 200.0, 300.0), (0.5, 0.8, 0.9))
            >>> Goal(True, "accuracy", budget=250.0).point(curve)
            (200.0, 0.8)
            >>> Goal(True, "accuracy", target=0.85).point(curve)
            (300.0, 0.9)
        """
        place = self._place(curve)
        return None if place is None else (curve.bits[place], curve.metric[place])

    def shown(self, curve: Curve) -> tuple[float, float] | None:
        """``point``; where there is none, bits and metric of the last evaluation."""
        last = (curve.bits[-1], curve.metric[-1]) if curve.bits else None
        return self.point(curve) or last

    def reached(self, metric: float) -> bool:
        """Whether a metric is at the target; without a target none is.

        Example:
            >>> Goal(True, "accuracy", target=0.9).reached(0.9), Goal(True, "accuracy").reached(1.0)
            (True, False)
        """
        curve = Curve((0.0,), (metric,))
        return self.target is not None and curve.reaches(self.target, self.higher) is not None

    def _place(self, curve: Curve) -> int | None:
        if self.budget is not None:
            return curve.within(self.budget)
        if self.target is not None:
            return curve.reaches(self.target, self.higher)
        return len(curve.bits) - 1 if curve.bits else None

    def task_loss(self, curve: Curve) -> float:
        """The task's loss where a curve is judged: of equal metrics, that of less is better.

        Infinite where it is not known.
        """
        place = self._place(curve)
        if place is None or not curve.losses or math.isnan(curve.losses[place]):
            return math.inf
        return curve.losses[place]

    def saturated(self, metric: float) -> bool:
        """Whether a metric within a budget cannot rise any more, so that fewer bits are better.

        Example:
            >>> goal = Goal(True, "accuracy", budget=250.0)
            >>> goal.saturated(1.0), goal.saturated(0.9965)
            (True, False)
        """
        bounded = self.higher and self.name in units.FRACTIONS
        return self.budget is not None and bounded and metric >= 1

    def loss(self, curve: Curve) -> float | None:
        """The value of a curve, the less the better; None: no evaluation counts.

        Within a budget: the metric, its sign turned where higher is better. To a target: the
        logarithm (base 10) of the bits; of a curve that does not reach it, ``NOT_REACHED`` and by
        how much its best evaluation misses. For the front: as for a budget, at the last evaluation.
        """
        point = self.point(curve)
        if self.target is None:
            return None if point is None else self.worse(point[1])
        if point is not None:
            return math.log10(max(point[0], 1.0))  # the first score may come before any bits
        missing = [abs(score - self.target) for score in curve.metric]
        return NOT_REACHED + min(missing) if missing else None

    def value(self, curve: Curve) -> float | None:
        """What the search makes small: ``loss``, and behind a metric that cannot rise, the bits.

        A saturated curve's value is less by the share of the budget that it left.
        """
        point, loss = self.point(curve), self.loss(curve)
        if point is None or loss is None or self.budget is None or not self.saturated(point[1]):
            return loss
        return loss - (1 - point[0] / self.budget)

    def worse(self, metric: float) -> float:
        """A metric as a loss: smaller is better."""
        return -metric if self.higher else metric

    def step(self, bits: float) -> int:
        """How many steps of equal bits lie behind so many; at these, curves are compared.

        Within a budget they are sixteenths of it; else there are four per doubling of bits.
        """
        if self.budget is not None:
            return min(STEPS, int(STEPS * bits / self.budget))
        return int(_PER_OCTAVE * math.log2(max(bits, 1.0)))

    def at_steps(self, curve: Curve, ended: bool = False) -> dict[int, float]:
        """The loss of a curve at every step between its first and last evaluation.

        It is that of the last evaluation within the step's bits. ``ended``: of a run that is done,
        which stays where it is up to the end of the budget.
        """
        if not curve.bits:
            return {}
        last = STEPS if ended and self.budget is not None else self.step(curve.bits[-1])
        losses: dict[int, float] = {}
        for step in range(self.step(curve.bits[0]), last + 1):
            bits = self.budget * step / STEPS if self.budget else 2 ** (step / _PER_OCTAVE)
            if (place := curve.within(bits)) is not None:
                losses[step] = self.worse(curve.metric[place])
        return losses

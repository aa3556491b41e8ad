"""A link's rate over time: constant, or steps that a trace gives, again and again."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

ROUNDED = 1 + 1e-12
"""A transfer that lacks so little of its time has ended: after many events sums are rounded, and
a rest that only rounding has left would wait if its link then has no rate."""

STUCK = "a link stays at 0 bits per second: its transfer never ends"


@dataclass(frozen=True)
class Rate:
    """Bits per second over time.

    Args:
        times: when each step begins, in seconds; the first is 0.
        values: the rate from then on.
        period: after so many seconds the steps come again; inf: the last step stays.

    Example:
        >>> day = Rate((0.0, 6.0), (1e6, 2e6), period=10.0)
        >>> day.at(7), day.at(12), day.next_change(7), day.next_change(12)
        (2000000.0, 1000000.0, 10.0, 16.0)
    """

    times: tuple[float, ...]
    values: tuple[float, ...]
    period: float = math.inf

    @classmethod
    def constant(cls, value: float) -> "Rate":
        """The same rate for ever."""
        return cls((0.0,), (value,))

    @property
    def is_constant(self) -> bool:
        """Whether the rate never changes."""
        return len(self.values) == 1

    def at(self, time: float) -> float:
        """The rate at a time; at the instant of a change it is the new one."""
        _, step = self._place(time)
        return self.values[step]

    def next_change(self, time: float) -> float:
        """When the next step begins, after `time`; inf where none comes."""
        if self.is_constant:
            return math.inf
        turn, step = self._place(time)
        if step + 1 < len(self.times):
            return self._start(turn, step + 1)
        return self._start(turn + 1, 0) if math.isfinite(self.period) else math.inf

    def end(self, start: float, bits: float) -> float:
        """When a message has passed that begins at ``start``, where nobody else takes the link.

        Raises:
            RuntimeError: the rate stays at 0.

        Example:
            >>> day = Rate((0.0, 6.0), (1e6, 2e6), period=10.0)
            >>> day.end(5.0, 3e6)
            7.0
        """
        now = start
        while bits:
            rate, change = self.at(now), self.next_change(now)
            if rate and now + bits / rate <= change * ROUNDED:
                return now + bits / rate
            if math.isinf(change):
                raise RuntimeError(STUCK)
            bits, now = max(0.0, bits - rate * (change - now)), change
        return now

    def _start(self, turn: int, step: int) -> float:
        return self.times[step] + (turn * self.period if turn else 0.0)

    def _place(self, time: float) -> tuple[int, int]:
        """The turn and the step of a time, such that `_start` of them is not after it.

        The starts are computed as `next_change` computes them: a time at the start of a step lies
        in that step, even if the division was rounded.
        """
        turn = int(time // self.period) if math.isfinite(self.period) else 0
        if math.isfinite(self.period) and self._start(turn + 1, 0) <= time:
            turn += 1
        elif turn and self._start(turn, 0) > time:
            turn -= 1
        if not turn:
            return 0, bisect_right(self.times, time) - 1
        shift = turn * self.period
        return turn, bisect_right(self.times, time, key=lambda start: start + shift) - 1


class ConstantRates(Sequence[Rate]):
    """The rates of links that never change, one per client: an array, however many clients.

    Args:
        values: bits per second, shape (clients,).

    Example:
        >>> rates = ConstantRates(np.array([1e6, 2e6]))
        >>> len(rates), rates[1].at(60.0)
        (2, 2000000.0)
    """

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    @overload
    def __getitem__(self, client: int) -> Rate: ...
    @overload
    def __getitem__(self, client: slice) -> "ConstantRates": ...
    def __getitem__(self, client: int | slice) -> "Rate | ConstantRates":
        if isinstance(client, slice):
            return ConstantRates(self.values[client])
        return Rate.constant(float(self.values[client]))

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantRates) and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]

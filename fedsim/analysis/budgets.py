"""What each method reaches for a budget of upstream bits: the numbers that are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedsim.analysis.curves import Bits, curve_lines
from fedsim.analysis.style import CellKey


@dataclass(frozen=True)
class Budget:
    """The best of one method within any budget.

    Attributes:
        method: its label.
        dense: whether it is raw sending.
        bits: (N,) ascending: bits that a client of every round has sent when a new best is reached.
        metric: (N,) that best, of any of the method's cells, seeds averaged.
        cells: N cells, each that which reached it.
        end: bits at the last evaluation of any of its cells: beyond, nothing was run.
    """

    method: str
    dense: bool
    bits: np.ndarray
    metric: np.ndarray
    cells: tuple[CellKey, ...]
    end: float


def budgets(
    rounds: pd.DataFrame, higher: bool, bits: Bits = "wire", x: str = "up_bits"
) -> list[Budget]:
    """The best metric within a budget of bits, one per method, `dense` first.

    A run may be stopped at any evaluation: all points of all learning curves count, over every
    n and p of the method. Points are those of `fedsim.analysis.curves.curve_lines`.

    Args:
        rounds: the frame of `fedsim.load(...).rounds`, or some of its rows.
        higher: whether a higher metric is better.
        bits: which bits, as for `curve_lines`.
        x: what is spent, as for `curve_lines`: with `TIME`, the numbers that are called bits are
            seconds.

    Raises:
        UsageError: as `curve_lines`.
    """
    sign = 1 if higher else -1
    by_method = rounds.assign(_coded=~rounds["dense"]).groupby(["_coded", "label"])
    return [_best(str(name), not coded, own, sign, bits, x) for (coded, name), own in by_method]


def leaders(methods: Sequence[Budget], higher: bool) -> list[tuple[float, float, str]]:
    """Which method is best where: (from bits, to bits, its label), ascending.

    Of equals, the one that needs fewer bits leads. A method leads no further than it was run: there
    is a gap where the best so far had ended, until another is better. From and to are the same
    where a method leads at its last evaluation alone.
    """
    sign = 1 if higher else -1
    steps = sorted(
        (float(x), -sign * float(y), budget.method)
        for budget in methods
        for x, y in zip(budget.bits, budget.metric, strict=True)
    )
    best, turns = float("inf"), list[tuple[float, str]]()
    for bits, loss, method in steps:
        if loss < best:
            best = loss
            if not turns or turns[-1][1] != method:
                turns.append((bits, method))
    last = {budget.method: budget.end for budget in methods}
    ends = [bits for bits, _ in turns[1:]] + [max(last.values())]
    return [
        (start, min(end, last[method]), method)
        for (start, method), end in zip(turns, ends, strict=True)
    ]


def _best(
    method: str, dense: bool, rounds: pd.DataFrame, sign: int, counted: Bits, spent: str
) -> Budget:
    points = [
        (float(x), float(y), line.cell)
        for line in curve_lines(rounds, spent, "metric", counted)
        for x, y in zip(line.x, line.y, strict=True)
    ]
    kept: list[tuple[float, float, CellKey]] = []
    for x, y, cell in sorted(points, key=lambda point: (point[0], -sign * point[1])):
        if not kept or sign * y > sign * kept[-1][1]:
            kept.append((x, y, cell))
    bits, metric, cells = zip(*kept, strict=True)
    end = max(x for x, _, _ in points)
    return Budget(method, dense, np.array(bits), np.array(metric), cells, end)

"""What each method reaches for a budget of upstream bits: the numbers that are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedsim.labels import is_dense, labels
from fedsim.looks import CellKey
from fedsim.series import Bits, curve_lines


@dataclass(frozen=True)
class Budget:
    """The best of one method within any budget.

    Attributes:
        method: its label.
        bits: (N,) ascending: bits that a client of every round has sent when a new best is reached.
        metric: (N,) that best, of any of the method's cells, seeds averaged.
        cells: N cells, each that which reached it.
    """

    method: str
    bits: np.ndarray
    metric: np.ndarray
    cells: tuple[CellKey, ...]


def budgets(rounds: pd.DataFrame, higher: bool, bits: Bits = "wire") -> list[Budget]:
    """The best metric within a budget of bits, one a method, `dense` first.

    A run may be stopped at any evaluation: all points of all learning curves count, over every
    n and p of the method. Points are those of `fedsim.series.curve_lines`.

    Args:
        rounds: the frame of `fedsim.load(...).rounds`, or some of its rows.
        higher: whether a higher metric is better.
        bits: which bits, as for `curve_lines`.

    Raises:
        UsageError: as `curve_lines`.
    """
    told = labels(rounds)
    names = sorted(set(told), key=lambda name: (not is_dense(name), name))
    return [_best(name, rounds[told == name], 1 if higher else -1, bits) for name in names]


def leaders(found: Sequence[Budget], higher: bool) -> list[tuple[float, float, str]]:
    """Which method is best where: (from bits, to bits, its label), ascending and without gaps.

    Of equals, the one that needs fewer bits leads.
    """
    sign = 1 if higher else -1
    steps = sorted(
        (float(x), -sign * float(y), one.method)
        for one in found
        for x, y in zip(one.bits, one.metric, strict=True)
    )
    best, turns = float("inf"), list[tuple[float, str]]()
    for bits, loss, method in steps:
        if loss < best:
            best = loss
            if not turns or turns[-1][1] != method:
                turns.append((bits, method))
    ends = [bits for bits, _ in turns[1:]] + [max(float(one.bits[-1]) for one in found)]
    return [(start, end, method) for (start, method), end in zip(turns, ends, strict=True)]


def _best(method: str, rounds: pd.DataFrame, sign: int, counted: Bits) -> Budget:
    points = [
        (float(x), float(y), line.cell)
        for line in curve_lines(rounds, "up_bits", "metric", counted)
        for x, y in zip(line.x, line.y, strict=True)
    ]
    kept: list[tuple[float, float, CellKey]] = []
    for x, y, cell in sorted(points, key=lambda point: (point[0], -sign * point[1])):
        if not kept or sign * y > sign * kept[-1][1]:
            kept.append((x, y, cell))
    bits, metric, cells = zip(*kept, strict=True)
    return Budget(method, np.array(bits), np.array(metric), cells)

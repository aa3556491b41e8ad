"""What total sparsity says of the errors of a matrix: the claims of Fig. 3 as numbers."""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Explained:
    """One-way analyses of variance of a matrix of errors.

    Attributes:
        along: variance along the diagonals: around each diagonal's mean, pooled (mean square
            within groups).
        across: variance across them: of the diagonals' means, weighted by their cells (mean
            square between groups); equal to ``along`` on average where diagonals mean nothing.
        ratio: across over along, the F of the analysis: 1 where diagonals mean nothing.
        total, temporal, gradient: shares of variance explained by total sparsity, by n alone and
            by p alone, from below 0 (less than chance) to 1 (all): eta squared adjusted for the
            number of groups, 1 - (mean square within) / (variance of all).
        eta: the plain eta squared of total sparsity: its sum of squares over the whole.
        temporal_slope, gradient_slope: error gained by one step (a factor) of n and of 1 / p, by
            least squares of error on both; equal where diagonals are level.
        widest: largest range of errors on one diagonal.

    A matrix with too few cells for a number has NaN there.
    """

    along: float
    across: float
    ratio: float
    total: float
    temporal: float
    gradient: float
    eta: float
    temporal_slope: float
    gradient_slope: float
    widest: float

    @property
    def decides(self) -> bool:
        """Whether diagonals explain most, and more than either sparsity by itself.

        That is: errors follow p/n. How level a diagonal is by itself says ``Triangle``.
        """
        return self.total >= 0.5 and self.total > max(self.temporal, self.gradient)


def explained(matrix: pd.DataFrame) -> Explained:
    """The analyses of one matrix: columns temporal, gradient, diagonal, error; a row per cell.

    Example:
        >>> cells = [(2**i, 2.0**-j, i + j, 0.1 * (i + j)) for i in range(3) for j in range(3)]
        >>> names = ["temporal", "gradient", "diagonal", "error"]
        >>> explained(pd.DataFrame(cells, columns=names)).along
        0.0
    """
    error = matrix["error"].to_numpy()
    by = {}
    for name in ("diagonal", "temporal", "gradient"):
        groups = matrix.groupby(name)["error"]
        by[name] = float((groups.size() * (groups.mean() - error.mean()) ** 2).sum())
    everything = float(((error - error.mean()) ** 2).sum())
    cells, groups = len(matrix), matrix["diagonal"].nunique()
    within = max(0.0, everything - by["diagonal"])
    ranges = matrix.groupby("diagonal")["error"].agg(np.ptp)
    # Error per step of n and of 1 / p; a diagonal is the sum of both steps.
    delays = sorted(matrix["temporal"].unique())
    step = np.array([delays.index(n) for n in matrix["temporal"]])
    design = np.stack([np.ones(cells), step, matrix["diagonal"] - step], axis=1)
    slopes = np.linalg.lstsq(design, error, rcond=None)[0]
    along = _mean_square(within, cells - groups)
    across = _mean_square(by["diagonal"], groups - 1)
    return Explained(
        along=along,
        across=across,
        ratio=across / along if along else np.nan,
        total=_adjusted(matrix, "diagonal", by["diagonal"], everything),
        temporal=_adjusted(matrix, "temporal", by["temporal"], everything),
        gradient=_adjusted(matrix, "gradient", by["gradient"], everything),
        eta=_round(by["diagonal"] / everything) if everything else 0.0,
        temporal_slope=_round(slopes[1]),
        gradient_slope=_round(slopes[2]),
        widest=float(ranges.max()),
    )


@dataclass(frozen=True)
class Triangle:
    """The cells of about the dense cell's error, and how level diagonals are among them.

    Attributes:
        often: cells of the matrix that have had enough rounds.
        cells: those of them whose error is at most ``within`` above that of n = p = 1.
        span: range of these errors; ``within`` bounds it but for cells better than dense.
        along: standard deviation along diagonals, pooled as in ``Explained``; NaN where no
            diagonal has two of them.
        widest: largest range on one diagonal; NaN likewise.
    """

    often: int
    cells: int
    span: float
    along: float
    widest: float


def triangle(matrix: pd.DataFrame, rounds: int, within: float) -> Triangle:
    """The triangle of a matrix with a column stage: iterations by which errors were measured.

    Args:
        matrix: a row per cell: temporal, gradient, diagonal, error, stage.
        rounds: those that a cell has had at least.
        within: the error that it may have above the dense cell's.

    Example:
        >>> cells = [(2**i, 2.0**-j, i + j, 0.1 * (i + j), 4) for i in range(2) for j in range(2)]
        >>> names = ["temporal", "gradient", "diagonal", "error", "stage"]
        >>> triangle(pd.DataFrame(cells, columns=names), 1, 0.15).cells
        3
    """
    dense = matrix[(matrix["temporal"] == 1) & (matrix["gradient"] == 1)]["error"].iloc[0]
    often = matrix[matrix["stage"] // matrix["temporal"] >= rounds]
    inside = often[often["error"] <= dense + within]
    groups = inside.groupby("diagonal")["error"]
    freedom = len(inside) - groups.ngroups
    squares = float(((inside["error"] - groups.transform("mean")) ** 2).sum())
    return Triangle(
        often=len(often),
        cells=len(inside),
        span=float(np.ptp(inside["error"])),
        along=_mean_square(squares, freedom) ** 0.5,
        widest=float(groups.agg(np.ptp).max()) if freedom else np.nan,
    )


def _adjusted(matrix: pd.DataFrame, name: str, between: float, everything: float) -> float:
    cells, groups = len(matrix), matrix[name].nunique()
    if cells <= groups:
        return np.nan
    if not everything:
        return 0.0
    return _round(1 - (everything - between) / (cells - groups) / (everything / (cells - 1)))


def _mean_square(total: float, freedom: int) -> float:
    return _round(total / freedom) if freedom else np.nan


def _round(value: float) -> float:
    """Sums of squares leave 1e-18 where nothing is left."""
    return round(float(value), 12) + 0.0

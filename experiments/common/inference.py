"""Mixed models at a proved optimum of their likelihood, and p-values of several tests.

The model is y = X b + Z_1 u_1 + ... + Z_K u_K + e. ``X`` holds the fixed effects. A random effect k
has levels, and Z_k has a column of zeros and ones for each. Levels are normal with variance r_k s,
and e is normal with variance s. Given the ratios r, V = I + sum of r_k Z_k Z_k' and

    P = V^-1 - V^-1 X (X' V^-1 X)^-1 X' V^-1,    s = y' P y / m,

with m = n - columns of X (restricted) or m = n. So the deviance is a function of r alone:

    d(r) = log|V| + log|X' V^-1 X| + m log(y' P y)            (restricted; else without the second)
    dd/dr_k = tr(Z_k' P Z_k) - m |Z_k' P y|^2 / y' P y        (restricted; else tr(Z_k' V^-1 Z_k))

``fit`` returns only where these derivatives are zero, or above zero at r_k = 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

Array = NDArray[np.float64]

SLOPE = 1e-6
"""Largest |dd / d log r_k| of a fit: a ratio that is 1 % off changes its deviance by 1e-8."""

STEPS = 100
"""Newton's steps, at most."""

STARTS = (0.1, 10.0)
"""Ratios of the grid whose best point is the start."""

LEVEL = 1e-9
"""A second derivative of less, beside the largest, is none."""

ROUNDING = 1e-7
"""What two deviances may differ by from rounding alone."""


class NotConverged(ArithmeticError):
    """The likelihood's gradient is not zero where a fit stopped."""


@dataclass(frozen=True)
class Mixed:
    """A fitted mixed model.

    Attributes:
        effects: the fixed effects b, by the columns of X.
        covariance: of the fixed effects: s (X' V^-1 X)^-1.
        ratios: variances r of the random effects over the residual's, by name.
        variance: of the residual, s.
        deviance: -2 log-likelihood, without the constant that n and m give.
        slope: the largest |dd / d log r_k|, or -dd/dr_k where r_k = 0.
    """

    effects: pd.Series
    covariance: pd.DataFrame
    ratios: pd.Series
    variance: float
    deviance: float
    slope: float


def fit(
    outcome: pd.Series,
    fixed: pd.DataFrame,
    groups: Mapping[str, pd.Series],
    restricted: bool = True,
) -> Mixed:
    """The mixed model of greatest (restricted) likelihood.

    Args:
        outcome: y, a number per line.
        fixed: X, a column per fixed effect.
        groups: the level of every line, by the name of the random effect.
        restricted: whether ratios are of the restricted likelihood (REML).

    Raises:
        NotConverged: the gradient is above ``SLOPE`` after ``STEPS`` steps, or the point is no
            minimum of the deviance.
    """
    model = _Model(outcome, fixed, groups, restricted)
    starts = (np.array(start) for start in product(STARTS, repeat=len(groups)))
    point = min(map(model.at, starts), key=lambda start: start.deviance)
    for _ in range(STEPS):
        if point.slope <= SLOPE:
            break
        point = model.step(point)
    if not (point.slope <= SLOPE and point.convex):
        raise NotConverged(
            f"a mixed model stopped at variance ratios {point.ratios.tolist()} with a gradient of "
            f"{point.slope:.3g}; allowed is {SLOPE:g}, at a minimum of the deviance"
        )
    variance = point.left / model.freedom
    return Mixed(
        effects=pd.Series(point.effects, fixed.columns),
        covariance=variance * pd.DataFrame(point.inverse, fixed.columns, fixed.columns),
        ratios=pd.Series(point.ratios, list(groups)),
        variance=variance,
        deviance=point.deviance,
        slope=point.slope,
    )


@dataclass(frozen=True)
class _Point:
    """The deviance at some ratios, with its derivatives.

    ``left`` is y' P y, ``inverse`` (X' V^-1 X)^-1.
    """

    ratios: Array
    deviance: float
    gradient: Array
    hessian: Array
    left: float
    effects: Array
    inverse: Array

    @property
    def free(self) -> NDArray[np.bool_]:
        """The ratios that may move: not those at zero that would fall."""
        return (self.ratios > 0) | (self.gradient < 0)

    @property
    def scale(self) -> Array:
        """What a free ratio is measured by: itself, or 1 where it is zero."""
        return np.where(self.ratios > 0, self.ratios, 1.0)[self.free]

    @property
    def slopes(self) -> Array:
        """The gradient along the free ratios."""
        return self.scale * self.gradient[self.free]

    @property
    def slope(self) -> float:
        """The largest of ``slopes``."""
        return float(np.abs(self.slopes).max(initial=0.0))

    def curves(self) -> tuple[Array, Array]:
        """The second derivatives along the free ratios, by their principal axes."""
        among = self.hessian[np.ix_(self.free, self.free)]
        return np.linalg.eigh(self.scale[:, None] * among * self.scale)

    @property
    def convex(self) -> bool:
        """Whether the deviance has one minimum along the free ratios: no axis is level."""
        curves = self.curves()[0]
        return bool((curves > LEVEL * np.abs(curves).max(initial=0.0)).all())


class _Model:
    """Products of the columns of [Z X y], of which all else is made."""

    def __init__(
        self,
        outcome: pd.Series,
        fixed: pd.DataFrame,
        groups: Mapping[str, pd.Series],
        restricted: bool,
    ) -> None:
        levels = [pd.get_dummies(g).to_numpy(dtype=np.float64) for g in groups.values()]
        columns = np.hstack([*levels, fixed.to_numpy(np.float64), outcome.to_numpy()[:, None]])
        self.products = columns.T @ columns
        self.kinds = np.repeat(np.arange(len(levels)), [part.shape[1] for part in levels])
        self.parts = [np.flatnonzero(self.kinds == k) for k in range(len(levels))]
        self.restricted = restricted
        self.freedom = len(fixed) - (fixed.shape[1] if restricted else 0)

    def at(self, ratios: Array) -> _Point:
        """The deviance and its derivatives at ``ratios``."""
        random, root = len(self.kinds), np.sqrt(ratios)[self.kinds]
        inner = np.linalg.cholesky(
            np.eye(random) + root[:, None] * self.products[:random, :random] * root
        )
        half = solve_triangular(inner, root[:, None] * self.products[:random], lower=True)
        by_v = self.products - half.T @ half  # [Z X y]' V^-1 [Z X y]
        outer = np.linalg.cholesky(by_v[random:-1, random:-1])
        half = solve_triangular(outer, by_v[random:-1], lower=True)
        by_p = by_v - half.T @ half  # [Z X y]' P [Z X y]
        left = by_p[-1, -1]
        logs = 2 * np.log(np.diag(inner)).sum() + self.freedom * np.log(left)
        if self.restricted:
            logs += 2 * np.log(np.diag(outer)).sum()
        core = by_p if self.restricted else by_v
        sides = [by_p[part, -1] for part in self.parts]
        squares = np.array([side @ side for side in sides])
        traces = np.array([core[part, part].sum() for part in self.parts])
        hessian = self.freedom * (-np.outer(squares, squares) / left**2)
        for k, rows in enumerate(self.parts):
            for j, others in enumerate(self.parts):
                at = np.ix_(rows, others)
                hessian[k, j] += 2 * self.freedom * sides[k] @ by_p[at] @ sides[j] / left
                hessian[k, j] -= (core[at] ** 2).sum()
        inverse = np.linalg.inv(by_v[random:-1, random:-1])
        return _Point(
            ratios,
            float(logs),
            traces - self.freedom * squares / left,
            hessian,
            float(left),
            inverse @ by_v[random:-1, -1],
            inverse,
        )

    def step(self, point: _Point) -> _Point:
        """A step of Newton's method along the free ratios, halved until the deviance falls."""
        curves, axes = point.curves()
        curves = np.maximum(np.abs(curves), LEVEL * np.abs(curves).max())
        direction = np.zeros_like(point.ratios)
        direction[point.free] = -point.scale * (axes @ (axes.T @ point.slopes / curves))
        for halvings in range(60):
            new = self.at(np.maximum(point.ratios + direction / 2**halvings, 0.0))
            if new.deviance <= point.deviance + ROUNDING:
                return new
        raise NotConverged(f"a mixed model's deviance does not fall from {point.deviance}")


def holm(chances: NDArray[np.float64]) -> Array:
    """Holm's p-values of several tests: the smallest times their number, and so on upwards.

    Example:
        >>> holm(np.array([0.04, 0.01, 0.03])).tolist()
        [0.06, 0.03, 0.06]
    """
    order = np.argsort(chances)
    times = np.arange(len(chances), 0, -1)
    corrected = np.empty(len(chances))
    corrected[order] = np.minimum(np.maximum.accumulate(chances[order] * times), 1.0)
    return corrected

"""The deviance of a mixed model by its definition, whole matrices at a time."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def deviance(
    outcome: pd.Series,
    fixed: pd.DataFrame,
    groups: Mapping[str, pd.Series],
    ratios: NDArray[np.float64],
    restricted: bool,
) -> float:
    """As ``experiments.common.inference`` defines it; the first group holds the levels of others.

    Lines of two levels of the first group are independent, so sums go level by level.
    """
    columns = np.column_stack([fixed.to_numpy(np.float64), outcome])
    squares, logs = np.zeros((columns.shape[1],) * 2), 0.0
    first = next(iter(groups.values())).to_numpy()
    for level in np.unique(first):
        rows = first == level
        v = np.eye(rows.sum())
        for ratio, group in zip(ratios, groups.values(), strict=True):
            labels = group.to_numpy()[rows]
            v += ratio * (labels[:, None] == labels)
        squares += columns[rows].T @ np.linalg.solve(v, columns[rows])
        logs += np.linalg.slogdet(v)[1]
    x, xy = squares[:-1, :-1], squares[:-1, -1]
    left = squares[-1, -1] - xy @ np.linalg.solve(x, xy)
    freedom = len(fixed) - (fixed.shape[1] if restricted else 0)
    return logs + freedom * np.log(left) + (np.linalg.slogdet(x)[1] if restricted else 0.0)


def optimal(
    outcome: pd.Series,
    fixed: pd.DataFrame,
    groups: Mapping[str, pd.Series],
    ratios: NDArray[np.float64],
    restricted: bool,
) -> bool:
    """Whether each ratio is where the deviance is least, by values around it and no derivative.

    A ratio that is 2 % from the least is found out: then one side is nearer to it.
    """
    at = deviance(outcome, fixed, groups, ratios, restricted)
    for k in range(len(ratios)):
        sides = []
        for factor in (np.exp(-0.01), np.exp(0.01)):
            moved = np.array(ratios)
            moved[k] = ratios[k] * factor if ratios[k] > 0 else 1e-3
            sides.append(deviance(outcome, fixed, groups, moved, restricted) - at)
        if min(sides) <= 0 or (ratios[k] > 0 and abs(sides[1] - sides[0]) > 0.1 * sum(sides)):
            return False
    return True

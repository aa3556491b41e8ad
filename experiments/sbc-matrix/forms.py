"""Which form of sparsity is best, and whether that changes with the stage: the claim of Fig. 9."""

from collections.abc import Iterator
from typing import Any

import pandas as pd


def best_forms(frame: pd.DataFrame, rounds: int) -> pd.DataFrame:
    """The best cell of every diagonal at every stage: a row per method, diagonal and stage.

    Only cells that have had ``rounds`` rounds by the first stage are compared, the same at all
    stages: a long delay would else become better only because its first rounds are over. Of equal
    errors that of the stage before counts. Diagonals with fewer than two such cells are left out.

    Args:
        frame: a row per method, cell and stage, all of one task: task, method, stage, temporal,
            gradient, diagonal, error.
        rounds: the rounds that a cell has had by the first stage, at least.

    Returns columns task, method, stage, diagonal, total_sparsity; temporal and gradient of the best
    cell, its error; ``place``, where on the diagonal it lies, from 0 (the end of gradient sparsity)
    to 1 (that of delay); ``stale``, the error of the cell that was best at the first stage.

    Example:
        >>> names = ["method", "stage", "temporal", "gradient", "diagonal", "error"]
        >>> cells = [("sbc", 9, 1, 0.5, 1, 0.3), ("sbc", 9, 2, 1, 1, 0.2),
        ...          ("sbc", 18, 1, 0.5, 1, 0.1), ("sbc", 18, 2, 1, 1, 0.15)]
        >>> best_forms(pd.DataFrame(cells, columns=names).assign(task="own"), 3)["place"].tolist()
        [1.0, 0.0]
    """
    often = frame[frame["stage"].min() // frame["temporal"] >= rounds]
    rows: list[dict[str, Any]] = []
    for _, mine in often.groupby(["method", "diagonal"], sort=False):
        errors = mine.pivot(index="stage", columns="temporal", values="error")
        if errors.shape[1] < 2:
            continue
        rows += _stages(mine, errors)
    return pd.DataFrame(rows)


def _stages(mine: pd.DataFrame, errors: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of ``best_forms`` for one diagonal, a row per stage.

    Args:
        mine: the rows of the diagonal's cells.
        errors: their errors, a row per stage and a column per n.
    """
    delays, first, before = list(errors.columns), errors.iloc[0].idxmin(), None
    for stage, line in errors.iterrows():
        least = line.min()
        best = before if before is not None and line[before] == least else line.idxmin()
        cell = mine[(mine["stage"] == stage) & (mine["temporal"] == best)].iloc[0]
        yield {
            "task": cell["task"],
            "method": cell["method"],
            "stage": stage,
            "diagonal": cell["diagonal"],
            "total_sparsity": cell["gradient"] / best,
            "temporal": best,
            "gradient": cell["gradient"],
            "error": least,
            "place": delays.index(best) / (len(delays) - 1),
            "stale": line[first],
        }
        before = best


def moves(forms: pd.DataFrame) -> pd.DataFrame:
    """``best_forms`` in a row per method and stage.

    ``best`` is the best n of each diagonal, ``place`` the mean place; ``longer`` and ``shorter``
    count the diagonals whose best cell has more or less delay than at the stage before (None at the
    first), ``stale`` is the mean error by which the first stage's best cells are behind now.
    """
    rows = []
    for method, mine in forms.groupby("method", sort=False):
        best = mine.pivot(index="stage", columns="diagonal", values="temporal")
        step = best.diff()
        for stage, now in mine.groupby("stage"):
            first = stage == best.index[0]
            rows.append(
                {
                    "method": method,
                    "stage": stage,
                    "best": best.loc[stage].tolist(),
                    "place": now["place"].mean(),
                    "longer": None if first else int((step.loc[stage] > 0).sum()),
                    "shorter": None if first else int((step.loc[stage] < 0).sum()),
                    "stale": (now["stale"] - now["error"]).mean(),
                }
            )
    return pd.DataFrame(rows)

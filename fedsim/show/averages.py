"""Seeds of one cell as one row: their mean, their sample standard deviation, and their number."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

CELL_COLUMNS = ("task", "method", "label", "temporal", "gradient")
"""What runs have in common that differ in their seeds alone."""

SPREAD = ("metric", "difference", "loss")
"""The columns whose standard deviation is shown: results of learning, not bits."""


def repeated(runs: pd.DataFrame, extra: Sequence[str] = ()) -> pd.Series:
    """Rows that only the names of their runs tell apart: of one cell and one seed.

    ``extra``: further columns that tell cells apart, where labels do not.
    """
    return runs.duplicated([*CELL_COLUMNS, "seed", *extra], keep=False)


def over_seeds(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` with a row per cell: numbers are means over the seeds that are done.

    Further columns: `seeds`, how many are done, and `metric_sd`, `difference_sd`, `loss_sd`, their
    sample standard deviations (ddof = 1; NaN of a single seed); `difference_seeds`, of how many
    the difference is. `status` counts the seeds where some failed. Runs of one cell and seed are
    not averaged: each keeps its row.

    Args:
        runs: the frame of `fedsim.load(...).runs`, in any order; its order is kept.
    """
    fixed = ["temporal", "gradient", "seed"]
    numbers = [name for name in runs.select_dtypes("number") if name not in fixed]
    single = np.where(repeated(runs), np.arange(len(runs)), -1)
    place = runs.assign(_run=single).groupby([*CELL_COLUMNS, "_run"], sort=False, dropna=False)
    rows = runs.assign(_cell=place.ngroup(), _done=runs["status"] == "done")
    done, cells = rows[rows["_done"]].groupby("_cell"), rows.groupby("_cell")
    shown = rows[rows["_done"] | ~cells["_done"].transform("any")]  # of one without, all rows
    means = shown.groupby("_cell")[numbers].mean()
    table = shown.drop_duplicates("_cell").sort_values("_cell")
    further = {f"{name}_sd": done[name].std(ddof=1) for name in SPREAD if name in runs.columns}
    further["seeds"] = cells["_done"].sum()
    if "difference" in runs.columns:  # a seed without a reference has none
        further["difference_seeds"] = done["difference"].count().reindex(means.index, fill_value=0)
    further["status"] = cells["status"].agg(_counted)
    values = pd.DataFrame(further, index=means.index).join(means).set_index(table.index)
    return table.assign(**values).drop(columns=["_cell", "_done"])


def _counted(statuses: pd.Series) -> str:
    """The status of all rows, or how many have each: `2 done, 1 failed`."""
    counts = statuses.value_counts().sort_index()
    if len(counts) == 1:
        return str(counts.index[0])
    return ", ".join(f"{count} {name}" for name, count in counts.items())

"""Seeds of one cell as one row: their mean, their sample standard deviation, and their number."""

from collections.abc import Sequence

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
    mask = repeated(runs).to_numpy()
    places = [place if repeats else -1 for place, repeats in enumerate(mask)]
    groups = runs.assign(_run=places).groupby([*CELL_COLUMNS, "_run"], sort=False, dropna=False)
    rows = []
    for _, cell in groups:
        done = cell[cell["status"] == "done"]
        shown = done if len(done) else cell
        row = shown.iloc[0].copy()
        fixed = ["temporal", "gradient", "seed", "_run"]
        numbers = [name for name in shown.select_dtypes("number").columns if name not in fixed]
        row[numbers] = shown[numbers].astype("float64").mean()
        for name in SPREAD:
            if name in cell.columns:
                row[f"{name}_sd"] = done[name].astype("float64").std(ddof=1)
        row["seeds"] = len(done)
        if "difference" in cell.columns:  # a seed without a reference has none
            row["difference_seeds"] = done["difference"].count()
        counts = cell["status"].value_counts().sort_index()
        if len(counts) > 1:
            row["status"] = ", ".join(f"{count} {name}" for name, count in counts.items())
        rows.append(row)
    types = {name: kind for name, kind in runs.dtypes.items() if kind.kind in "fbO"}
    return pd.DataFrame(rows).drop(columns="_run").astype(types)

"""Fig. 4 of Sattler et al. 2018: which kind of sparsity is best, and against the dense run."""

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import canvas
from experiments.common.plane import METHODS, Square, errors, stage_table
from experiments.common.tables import percent
from fedsim import Results
from fedsim.show.plot import plain_ticks

KINDS = {"temporal": "#9467bd", "gradient": "#e69f00", "both": "#56b4e9"}
"""As in Fig. 4: temporal sparsity alone is purple, gradient sparsity alone yellow."""

RIVALS = {
    "total sparsities": "{levels}",
    "temporal alone beats gradient alone": "{temporal_wins}",
    "by (mean, error × 100)": "{gap:+.1f}",
    "a cell with both beats either": "{both_wins}",
}
NUMBERS = ["dense", "temporal", "gradient", "best", "gain"]
LOWEST = {
    "dense": "{dense:.1f}",
    "least temporal": "{temporal:.1f}",
    "least gradient": "{gradient:.1f}",
    "best sparse": "{best:.1f} (n = {n}, p = {p})",
    "better than dense by": "{gain:+.1f}",
    "sparse cells below dense": "{below} of {cells}",
}
"""Columns of the tables of Fig. 4, and how they are written."""


def levels(square: Square, results: Results) -> pd.DataFrame:
    """A row a sparse cell and stage, with its ``kind``: temporal or gradient sparsity, or both.

    ``dense`` is the error of n = p = 1 at that stage.
    """
    frame = errors(square, results)
    kind = pd.Series("both", index=frame.index).mask(frame["gradient"] == 1, "temporal")
    frame["kind"] = kind.mask(frame["temporal"] == 1, "gradient")
    neither = frame[frame["diagonal"] == 0].set_index(["method", "stage"])["error"]
    frame = frame.join(neither.rename("dense"), on=["method", "stage"])
    return frame[frame["diagonal"] > 0]


def rivals(plane: pd.DataFrame) -> pd.DataFrame:
    """Fig. 4's question: which kind is best at equal total sparsity, a row per method and stage.

    ``levels`` counts the total sparsities that both a purely temporal and a purely gradient
    sparse cell have; the others say on how many of them temporal sparsity alone beats gradient
    sparsity alone, and on how many the best of all cells has both.
    """
    rows = []
    for (method, stage), mine in plane.groupby(["method", "stage"], sort=False):
        best = mine.pivot_table(index="diagonal", columns="kind", values="error", aggfunc="min")
        best = best.reindex(columns=list(KINDS)).dropna(subset=["temporal", "gradient"])
        edges = best[["temporal", "gradient"]].min(axis=1)
        gap = best["gradient"] - best["temporal"]
        rows.append(
            {
                "method": method,
                "stage": stage,
                "levels": len(best),
                "temporal_wins": int((gap > 0).sum()),
                "gap": gap.mean(),
                "both_wins": int((best["both"] < edges).sum()),
            }
        )
    return pd.DataFrame(rows)


def lowest(plane: pd.DataFrame) -> pd.DataFrame:
    """Fig. 4's other question: is a sparse cell the best of all, a row per method and stage.

    ``temporal`` and ``gradient`` are the errors of the least sparse cell of either kind, ``best``,
    ``n`` and ``p`` are of the best sparse cell; ``below`` counts the sparse cells below ``dense``.
    """
    rows = []
    for (method, stage), mine in plane.groupby(["method", "stage"], sort=False):
        best, dense = mine.loc[mine["error"].idxmin()], mine["dense"].iloc[0]
        least = mine[mine["diagonal"] == 1].set_index("kind")["error"]
        rows.append(
            {
                "method": method,
                "stage": stage,
                "dense": dense,
                "temporal": least["temporal"],
                "gradient": least["gradient"],
                "best": best["error"],
                "n": best["temporal"],
                "p": best["gradient"],
                "gain": dense - best["error"],
                "below": int((mine["error"] < dense).sum()),
                "cells": len(mine),
            }
        )
    return pd.DataFrame(rows)


def phase_tables(plane: pd.DataFrame) -> list[str]:
    """Both of Fig. 4's questions as Markdown."""
    least = lowest(plane)
    least = least.assign(p=[f"1/{round(1 / p)}" if p < 1 else "1" for p in least["p"]])
    return [
        stage_table("Temporal against gradient sparsity", percent(rivals(plane), ["gap"]), RIVALS),
        stage_table("Sparse against dense", percent(least, NUMBERS), LOWEST),
    ]


def sparsity_figure(square: Square, plane: pd.DataFrame) -> Figure:
    """Fig. 4: a panel per method and stage, error over total sparsity (log-log), dense a line."""
    drawn = canvas(3.1 * len(square.stages), 5.6)
    panels = drawn.subplots(len(METHODS), len(square.stages), sharex=True, sharey=True)
    for row, method in zip(panels, METHODS, strict=True):
        for axes, stage in zip(row, square.stages, strict=True):
            mine = plane[(plane["method"] == method) & (plane["stage"] == stage)]
            for kind, colour in reversed(KINDS.items()):
                own = mine[mine["kind"] == kind].sort_values("total_sparsity")
                line, label = ("", "both") if kind == "both" else ("-", f"{kind} sparsity alone")
                axes.plot(
                    own["total_sparsity"],
                    100 * own["error"],
                    color=colour,
                    marker="o",
                    markersize=4,
                    ls=line,
                    label=label,
                )
            dense = 100 * mine["dense"].iloc[0]
            axes.axhline(dense, color="black", ls="--", lw=1, label="dense")
            axes.set(xscale="log", yscale="log")
            axes.grid(alpha=0.25)
            axes.set_title(f"{METHODS[method]}, {stage} iterations", fontsize=9)
        row[0].set_ylabel("held-out error × 100")
    for axes in panels[-1]:
        axes.set_xlabel("total sparsity p/n")
    plain_ticks(panels[0, 0].yaxis, (1, 1.5, 2, 3, 5, 7))  # which all share
    panels[0, 0].legend(fontsize=8)
    drawn.suptitle(f"{square.task}", fontsize=10, x=0.02, ha="left")
    return drawn

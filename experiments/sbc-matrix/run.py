"""Fig. 3 and 9 of Sattler et al. 2018: the matrix of temporal and gradient sparsity.

Run: ``fedsim experiment sbc-matrix --scale short --data DIR``
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from experiments.common.figures import canvas, ink
from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.plane import METHODS, SCALES, Square, bare_errors, errors
from experiments.common.tables import of_task
from fedsim import Cell, Results

from .diagonals import explained, triangle
from .forms import best_forms, moves
from .tables import FEW, WITHIN, bare_table, diagonal_table, form_table, triangle_table

COLOURS = colormaps["cividis_r"]  # as fedsim.plot: brighter is better, here lower


def runs(asked: Asked) -> list[Cell]:
    """Every cell of a task's square, then those without momentum masking."""
    square = SCALES[asked.scale][asked.task]
    return [*square.cells(asked.data), *square.unmasked(asked.data)]


def show(asked: Asked, results: Results) -> Shown:
    """The matrix of a task, what its diagonals say, its best forms and its unmasked cells."""
    square = SCALES[asked.scale][asked.task]
    frame, bare = errors(square, results), bare_errors(square, results)
    written = {"matrix": frame, "diagonals": shares(frame), "forms": best_forms(frame, FEW)}
    written["unmasked"] = bare
    text = of_task(square.task, results, tables(frame, bare))
    return Shown(
        {name: rows for name, rows in written.items() if len(rows)},
        {"tables": text},
        {"matrix": figure(square, frame)},
    )


EXPERIMENT = Experiment(show, runs, tasks=lambda scale: SCALES[scale])


def tables(frame: pd.DataFrame, bare: pd.DataFrame) -> str:
    """What diagonals say of a matrix, its best forms, and its unmasked cells, as Markdown."""
    table, forms = shares(frame), best_forms(frame, FEW)
    parts = [diagonal_table(table), triangle_table(table)]
    parts += [form_table(moves(forms))] if len(forms) else []
    parts += [bare_table(bare)] if len(bare) else []
    return "\n".join(parts)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, a task each, from the errors that are in ``results``."""
    made = {}
    for name in SCALES["short"]:
        frame = pd.read_csv(results / name / "matrix.csv")
        made[name] = tables(frame, pd.read_csv(results / name / "unmasked.csv"))
    return made


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per method and stage: what diagonals explain of the errors."""
    rows = []
    for (task, method, stage), matrix in frame.groupby(["task", "method", "stage"], sort=False):
        whole, inside = explained(matrix), triangle(matrix, FEW, WITHIN)
        often = explained(matrix[matrix["stage"] // matrix["temporal"] >= FEW])
        rows.append(
            {
                "task": task,
                "method": method,
                "stage": stage,
                "cells": len(matrix),
                "least_error": matrix["error"].min(),
                "largest_error": matrix["error"].max(),
                **vars(whole),
                "decides": whole.decides,
                "often": inside.often,
                "often_total": often.total,
                "often_widest": often.widest,
                "inside": inside.cells,
                "inside_span": inside.span,
                "inside_along": inside.along,
                "inside_widest": inside.widest,
            }
        )
    return pd.DataFrame(rows)


def figure(square: Square, frame: pd.DataFrame) -> Figure:
    """A panel per method (row) and stage (column): errors times 100, a scale per stage."""
    width, height = 0.62 * square.side + 0.5, 0.44 * square.side + 0.6
    size = (width * len(square.stages) + 0.6, height * len(METHODS) + 0.8)
    drawn = canvas(*size)
    panels = drawn.subplots(len(METHODS), len(square.stages), squeeze=False)
    for column, stage in enumerate(square.stages):
        mine = frame[frame["stage"] == stage]
        norm = Normalize(mine["error"].min(), mine["error"].max())
        for row, method in enumerate(METHODS):
            axes = panels[row, column]
            _panel(axes, square, mine[mine["method"] == method], norm)
            axes.set_title(f"{METHODS[method]}, {stage} iterations", fontsize=9)
            if row == len(METHODS) - 1:
                axes.set_xlabel("gradient sparsity p", fontsize=9)
            if not column:
                axes.set_ylabel("communication delay n", fontsize=9)
    drawn.suptitle(
        f"{square.task}: held-out error × 100; lines join equal total sparsity p/n; "
        "hatched: no round yet",
        fontsize=10,
        x=0.02,
        ha="left",
    )
    return drawn


def _panel(axes: Axes, square: Square, matrix: pd.DataFrame, norm: Normalize) -> None:
    grid = matrix.pivot(index="temporal", columns="gradient", values="error")
    values = grid.reindex(index=square.temporals, columns=square.gradients).to_numpy()
    axes.imshow(values, cmap=COLOURS, norm=norm, aspect="auto")
    axes.patch.set(hatch="///", edgecolor="#bbbbbb", facecolor="white")
    texts = ["1"] + [f"1/{square.ratio**power}" for power in range(1, square.side)]
    axes.set_xticks(range(square.side), texts, fontsize=8)
    axes.set_yticks(range(square.side), [str(n) for n in square.temporals], fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for at in np.argwhere(np.isfinite(values)):
        value = values[tuple(at)]
        axes.text(
            at[1],
            at[0],
            f"{100 * value:.1f}",
            ha="center",
            va="center",
            fontsize=8,
            color=ink(COLOURS(norm(value))),
        )
        below = (at[0] + 1, at[1] - 1)
        if below[0] < square.side and below[1] >= 0 and np.isfinite(values[below]):
            ends = np.array([0.38, 0.62])  # around the common corner: no text is crossed
            axes.plot(at[1] - ends, at[0] + ends, color="black", lw=2, alpha=0.5)
            axes.plot(at[1] - ends, at[0] + ends, color="white", lw=0.9)

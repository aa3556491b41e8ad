"""Fig. 3 and 9 of Sattler et al. 2018: the matrix of temporal and gradient sparsity.

    python -m fedsim experiment sbc-matrix --scale short --data DIR
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this file
from diagonals import explained
from plane_runs import METHODS, SCALES, Square, errors

from fedsim.files import write_text
from fedsim.looks import ink
from fedsim.plot import save
from fedsim.shown import chosen, run_shown

FEW = 3
"""Rounds below which a cell has hardly exchanged anything: it is also left out once."""

COLOURS = colormaps["cividis_r"]  # as fedsim.plot: brighter is better, here lower


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs the tasks in ``only`` (default: all of the scale); 1 if a run failed."""
    squares = SCALES[scale]
    names = chosen(only, squares, "tasks")
    return max(_task(squares[name], out / name, jobs, data) for name in names)


def _task(square: Square, out: Path, jobs: int, data: str | None) -> int:
    results = run_shown(square.cells(data), out, jobs)
    if results is None:
        return 1
    frame = errors(square, results)
    write_text(out / "matrix.csv", frame.to_csv(index=False, float_format="%.6g"))
    table = shares(frame)
    write_text(out / "diagonals.csv", table.to_csv(index=False, float_format="%.6g"))
    text = f"{square.task}: {results.runs['data_source'].iloc[0]}\n\n{markdown(table)}"
    write_text(out / "tables.md", text)
    save(figure(square, frame), out / "matrix.png")
    print(text)
    return 0


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a method and stage: what diagonals explain of the errors."""
    rows = []
    for (task, method, stage), matrix in frame.groupby(["task", "method", "stage"], sort=False):
        found = explained(matrix)
        often = explained(matrix[matrix["stage"] // matrix["temporal"] >= FEW])
        rows.append(
            {
                "task": task, "method": method, "stage": stage, "cells": len(matrix),
                "least_error": matrix["error"].min(), "largest_error": matrix["error"].max(),
                **vars(found), "holds": found.holds,
                "often_total": often.total, "often_widest": often.widest,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def markdown(table: pd.DataFrame) -> str:
    """The shares as a table; standard deviations and ranges in the error's own unit times 100."""
    lines = [
        "| method | iteration | cells | errors | s.d. along | s.d. across | explained by p/n | "
        "by n | by p | a step of n | of 1/p | widest diagonal | level? "
        f"| {FEW} rounds or more: explained by p/n | widest |",
        "| --- " * 15 + "|",
    ]
    for row in table.to_dict("records"):
        lines.append(
            f"| {METHODS[row['method']]} | {row['stage']} | {row['cells']} "
            f"| {100 * row['least_error']:.1f} to {100 * row['largest_error']:.1f} "
            f"| {100 * row['along'] ** 0.5:.1f} | {100 * row['across'] ** 0.5:.1f} "
            f"| {row['total']:.2f} | {row['temporal']:.2f} | {row['gradient']:.2f} "
            f"| {100 * row['temporal_slope']:+.1f} | {100 * row['gradient_slope']:+.1f} "
            f"| {100 * row['widest']:.1f} | {'yes' if row['holds'] else 'no'} "
            f"| {row['often_total']:.2f} | {100 * row['often_widest']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def figure(square: Square, frame: pd.DataFrame) -> Figure:
    """A panel a method (row) and stage (column): errors times 100, each stage on its own scale."""
    width, height = 0.62 * square.side + 0.5, 0.44 * square.side + 0.6
    size = (width * len(square.stages) + 0.6, height * len(METHODS) + 0.8)
    drawn = Figure(figsize=size, layout="constrained")
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
        "hatched: no round yet", fontsize=10, x=0.02, ha="left",
    )  # fmt: skip
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
            at[1], at[0], f"{100 * value:.1f}", ha="center", va="center", fontsize=8,
            color=ink(COLOURS(norm(value))),
        )  # fmt: skip
        below = (at[0] + 1, at[1] - 1)
        if below[0] < square.side and below[1] >= 0 and np.isfinite(values[below]):
            ends = np.array([0.38, 0.62])  # around the common corner: no text is crossed
            axes.plot(at[1] - ends, at[0] + ends, color="black", lw=2, alpha=0.5)
            axes.plot(at[1] - ends, at[0] + ends, color="white", lw=0.9)

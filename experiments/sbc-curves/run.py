"""Fig. 4 to 8 of Sattler et al. 2018: error over total sparsity, over epochs and over bits.

    fedsim experiment sbc-curves --data DIR

The runs are those of sbc-matrix: where its results lie in the folder beside this one's, nothing
is trained again.
"""

import shutil
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import SBC_LINES as LINES
from experiments.common.figures import canvas, grids
from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.plane import SCALES, Square
from experiments.common.tables import of_task, table
from fedsim import Cell, Results
from fedsim.ground.units import bits
from fedsim.show.plot import plain_ticks

from .phases import levels, phase_tables, sparsity_figure


def runs(asked: Asked) -> list[Cell]:
    """Every cell of a task's square; those that sbc-matrix has done are taken over first."""
    cells = SCALES[asked.scale][asked.task].cells(asked.data)
    if asked.jobs:
        beside = asked.out.parents[1] / f"sbc-matrix-{asked.scale}" / asked.task / "cells"
        take_over(beside, asked.out / "cells", {cell.name for cell in cells})
    return cells


def take_over(source: Path, target: Path, wanted: set[str]) -> None:
    """Copies wanted runs that ``target`` lacks; settings are compared when they are asked for."""
    for folder in sorted(source.iterdir()) if source.is_dir() else []:
        if folder.name in wanted and not (target / folder.name).exists():
            shutil.copytree(folder, target / folder.name)


def show(asked: Asked, results: Results) -> Shown:
    """Errors over total sparsity, and Table II's methods over iterations and over bits."""
    square = SCALES[asked.scale][asked.task]
    plane, lines = levels(square, results), curves(square, results)
    text = of_task(square.task, results, markdown(plane, lines))
    return Shown(
        {"sparsity": plane, "curves": lines},
        {"tables": text},
        {"sparsity": sparsity_figure(square, plane), "curves": curves_figure(square, lines)},
    )


EXPERIMENT = Experiment(show, runs, tasks=lambda scale: SCALES[scale])


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, from the errors by total sparsity and the curves in ``results``."""
    made = {}
    for name in SCALES["short"]:
        plane = pd.read_csv(results / name / "sparsity.csv")
        lines = pd.read_csv(results / name / "curves.csv")
        made[f"{name}/sparsity"] = "\n".join(phase_tables(plane))
        made[f"{name}/curves"] = ends(lines)
    return made


def curves(square: Square, results: Results) -> pd.DataFrame:
    """A row per evaluation of the six methods of Table II: epochs, bits sent per client, error."""
    higher = bool(results.runs["higher_is_better"].iloc[0])
    tables = []
    # Table II's methods in its order; a square of side 2 has no SBC (3).
    for title, (method, n, p) in zip(LINES, square.drawn, strict=False):
        name = square.name(method, square.ratio**n, square.ratio**-p)
        rows = results.rounds[results.rounds["run"] == name]
        error = 1 - rows["metric"] if higher else rows["metric"]
        curve = pd.DataFrame(
            {
                "task": square.task,
                "method": title,
                "temporal": square.ratio**n,
                "gradient": square.ratio**-p,
                "iteration": rows["iteration"],
                "error": error,
                "up_bits": (rows["up_content_bits"] / rows["clients"]).cumsum(),
                "ratio_content": results.runs.loc[name, "ratio_content"],
            }
        )
        tables.append(curve.dropna(subset="error"))
    return pd.concat(tables)


def markdown(plane: pd.DataFrame, lines: pd.DataFrame) -> str:
    """Fig. 4 in numbers, then the ends of the curves."""
    return "\n".join([*phase_tables(plane), "Table II's methods\n", ends(lines)])


def ends(lines: pd.DataFrame) -> str:
    """The ends of the curves, and what they took to the common error."""
    heading = (
        "method",
        "n",
        "p",
        "error at the end",
        "content ratio",
        f"iterations to error {target(lines):.4f}",
        "bits to it",
        "fewer than the baseline's",
    )
    rows = [
        [
            row["method"],
            f"{row['temporal']}",
            f"{row['gradient']:.3g}",
            f"{row['error']:.4f}",
            f"×{row['ratio_content']:.4g}",
            f"{row['iteration']}",
            bits(row["up_bits"]),
            f"×{row['saving']:.4g}",
        ]
        for row in budgets(lines).to_dict("records")
    ]
    return table(heading, rows)


def target(lines: pd.DataFrame) -> float:
    """The least error that all six methods reach."""
    return float(lines.groupby("method")["error"].min().max())


def budgets(lines: pd.DataFrame) -> pd.DataFrame:
    """A row per method: its end, the iterations and bits of its first evaluation at `target`."""
    rows = []
    for title, mine in lines.groupby("method", sort=False):
        first = mine[mine["error"] <= target(lines)].iloc[0]
        last = mine.iloc[-1]
        rows.append(
            {
                "method": title,
                "temporal": last["temporal"],
                "gradient": last["gradient"],
                "error": last["error"],
                "ratio_content": last["ratio_content"],
                "iteration": first["iteration"],
                "up_bits": first["up_bits"],
            }
        )
    frame = pd.DataFrame(rows)
    return frame.assign(saving=frame["up_bits"].iloc[0] / frame["up_bits"])


def curves_figure(square: Square, lines: pd.DataFrame) -> Figure:
    """Fig. 5 to 8: error over iterations, and over a client's bits (log-log)."""
    drawn = canvas(9.5, 4.2)
    left, right = drawn.subplots(1, 2)
    for title, mine in lines.groupby("method", sort=False):
        colour, _ = LINES[title]
        n, p = mine["temporal"].iloc[0], mine["gradient"].iloc[0]
        text = f"{title}: n = {n}, p = {p:.3g}"
        left.plot(mine["iteration"], 100 * mine["error"], color=colour, marker=".", label=text)
        right.loglog(mine["up_bits"], 100 * mine["error"], color=colour, marker=".")
    left.set(xlabel="local iterations", ylabel="held-out error × 100")
    right.set(xlabel="upstream payload per client so far (bit)", ylabel="held-out error × 100")
    grids((left, right))
    plain_ticks(right.yaxis)
    drawn.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    drawn.suptitle(square.task, fontsize=10, x=0.02, ha="left")
    return drawn

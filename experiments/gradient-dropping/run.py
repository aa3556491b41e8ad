"""Figures 2, 4, 6, 8 and Table 1 of Aji & Heafield 2017: gradient dropping on MNIST.

    fedsim experiment gradient-dropping --data DIR

``--only fig6,table1`` runs what these show. Runs that are in the results folder are not run
again: times on an idle machine take a new ``--out``. Times are in files of their own: ``times.md``,
``times.csv``, ``fig6.csv`` and ``fig6.png``.
"""

from pathlib import Path

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from fedsim import Cell, Results

from .figures import DRAWN
from .rows import FIGURES, SCALES, SMOKE, cells, rows_of
from .tables import collect, curves, differences, markdown, runs_table
from .times import TIMED, speed_tables, speeds, times_markdown


def runs(asked: Asked) -> list[Cell]:
    """The runs that the figures show."""
    rows = [row for row in rows_of(asked.rows) if asked.scale != "smoke" or row.name in SMOKE]
    return cells(rows, asked.scale, asked.data)


def show(asked: Asked, results: Results) -> Shown:
    """Tables of all runs, and the figures and times that are asked for."""
    figures = asked.rows or FIGURES
    table = collect(results.runs, results.rounds, SCALES[asked.scale].batch_size)
    lines = curves(results.rounds)
    first = lines[lines["seed"] == 0]
    tables = {
        name: frame.drop(columns=[*TIMED], errors="ignore")
        for name, frame in (("tables", table), ("curves", lines))
    }
    texts = {"tables": markdown(table)}
    if "table1" in figures:
        tables["times"] = speeds(table)
        texts["times"] = times_markdown(tables["times"], lines)
    if "fig6" in figures:
        tables["fig6"] = first[first["name"].isin([row.name for row in rows_of(["fig6"])])]
    drawn = {
        name: draw(lines if name == "fig4" else first)
        for name, draw in DRAWN.items()
        if name in figures
    }
    return Shown(tables, texts, drawn)


EXPERIMENT = Experiment(show, runs, rows=lambda scale: FIGURES, what="figures")


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, from what is in ``results``."""
    table = pd.read_csv(results / "tables.csv")
    measured, ratios = speed_tables(pd.read_csv(results / "times.csv"))
    return {
        "runs": runs_table(table),
        "differences": differences(table),
        "times": measured,
        "ratios": ratios,
    }

"""Figures 2, 4, 6, 8 and Table 1 of Aji & Heafield 2017: gradient dropping on MNIST.

    python -m fedsim experiment gradient-dropping --data DIR

``--only fig6,table1`` runs what these show. Runs that are in the results folder are not run
again: times on an idle machine take a new ``--out``. Times are in files of their own: ``times.md``,
``times.csv``, ``fig6.csv`` and ``fig6.png``.
"""

import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this file
from dropping_figures import DRAWN
from dropping_rows import FIGURES, SCALES, SMOKE, cells, rows_of
from dropping_tables import collect, curves, differences, markdown, runs_table
from dropping_times import TIMED, speed_tables, speeds, times_markdown

from fedsim.files import write_text
from fedsim.plot import save
from fedsim.results.load import Results
from fedsim.runs.launch import chosen, run_shown


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs what the figures in ``only`` (default: all) show; 1 if a run failed."""
    figures = chosen(only, FIGURES, "figures")
    rows = [row for row in rows_of(figures) if scale != "smoke" or row.name in SMOKE]
    results = run_shown(cells(rows, scale, data), out, jobs)
    if results is None:
        return 1
    write(results, SCALES[scale].batch_size, figures, out)
    return 0


def write(results: Results, batch_size: int, figures: list[str], out: Path) -> None:
    """Tables of all runs, and the figures and times that are asked for."""
    table = collect(results.runs, results.rounds, batch_size)
    lines = curves(results.rounds)
    first = lines[lines["seed"] == 0]
    tables = {
        name: frame.drop(columns=[*TIMED], errors="ignore")
        for name, frame in (("tables", table), ("curves", lines))
    }
    text = markdown(table)
    write_text(out / "tables.md", text)
    if "table1" in figures:
        tables["times"] = speeds(table)
        said = times_markdown(tables["times"], lines)
        write_text(out / "times.md", said)
        text += f"\n{said}"
    if "fig6" in figures:
        tables["fig6"] = first[first["name"].isin([row.name for row in rows_of(["fig6"])])]
    for name, frame in tables.items():
        write_text(out / f"{name}.csv", frame.to_csv(index=False, float_format="%.6g"))
    for name, draw in DRAWN.items():
        if name in figures:
            save(draw(lines if name == "fig4" else first), out / f"{name}.png")
    print(text)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, from what is in ``results``."""
    table = pd.read_csv(results / "tables.csv")
    measured, ratios = speed_tables(pd.read_csv(results / "times.csv"))
    return {
        "runs": runs_table(table), "differences": differences(table),
        "times": measured, "ratios": ratios,
    }  # fmt: skip

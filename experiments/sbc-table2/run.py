"""Table II of Sattler et al. 2018: final metric and compression ratio of six methods.

    python -m fedsim experiment sbc-table2 --only mnist_lenet5 --data DIR
"""

import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this file
from table2_figure import figure
from table2_rows import PAPER, columns
from table2_text import markdown

from fedsim import RunConfig
from fedsim.files import write_text
from fedsim.plot import save
from fedsim.results.load import Results
from fedsim.runs.launch import chosen, run_shown
from fedsim.runs.sweep import Cell
from fedsim.tasks import get_task

LONG = ("imagenet_resnet50", "word_lstm")
"""Rows for a GPU, at the published length only: a processor gets nowhere near it."""

SMOKE_TASK = "digits"
"""What ``smoke`` trains where ``--only`` names no row: it needs no data. The paper has it not."""
SMOKE = {
    "iterations": 8, "batch_size": 8, "clients": 2, "evaluate_every": 2, "test_samples": 100,
}  # fmt: skip
SHORT = {
    "cifar_resnet32": {"iterations": 400, "batch_size": 32, "test_samples": 2000},
    "char_lstm": {"iterations": 2000},
}
"""Rows that take a GPU, or hours, at the published length; the others have it at this scale too."""


def cells(task: str, scale: str, data: str | None) -> dict[str, Cell]:
    """The runs of one row; a shorter budget shortens delays too."""
    changed = SMOKE if scale == "smoke" else SHORT.get(task, {}) if scale == "short" else {}
    found = {}
    for column in columns(task):
        published = column.temporal
        if column.name == "fedavg" and task in PAPER:
            published = PAPER[task]["fedavg"][1]
        delay = published
        if "iterations" in changed:  # a quarter of the budget at most, so that clients do average
            delay = min(published, max(1, changed["iterations"] // 4))
        config = RunConfig(
            task=task, method=column.method, temporal=delay, gradient=column.gradient, data=data,
            device="cuda" if scale == "paper" and torch.cuda.is_available() else "cpu",
        )  # fmt: skip
        found[column.name] = Cell(column.name, replace(config, **changed))
    return found


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs the rows in ``only`` (default: all of the scale; smoke: digits); 1 if a run failed."""
    known = [row for row in PAPER if scale == "paper" or row not in LONG]
    default = [SMOKE_TASK] if scale == "smoke" else None
    rows = chosen(only, known, f"rows of --scale {scale}", default)
    return max(_row(row, scale, out / row, jobs, data) for row in rows)


def _row(task: str, scale: str, out: Path, jobs: int, data: str | None) -> int:
    found = cells(task, scale, data)
    results = run_shown(list(found.values()), out, jobs)
    if results is None:
        return 1
    frame, lines = compare(task, results), curves(task, results)
    text = markdown(task, frame)
    write_text(out / "table2.csv", frame.to_csv(index=False, float_format="%.9g"))
    write_text(out / "curves.csv", lines.to_csv(index=False, float_format="%.6g"))
    write_text(out / "table2.md", text)
    save(figure(task, lines), out / "table2.png")
    print(text)
    return 0


def curves(task: str, results: Results) -> pd.DataFrame:
    """A row an evaluation: metric and the payload that a client had sent, by method."""
    tables = []
    for column in columns(task):
        rows = results.rounds[results.rounds["run"] == column.name]
        table = pd.DataFrame(
            {
                "method": column.title, "temporal": column.temporal, "gradient": column.gradient,
                "iteration": rows["iteration"], "metric": rows["metric"],
                "up_bits": (rows["up_content_bits"] / rows["clients"]).cumsum(),
            }
        )  # fmt: skip
        tables.append(table.dropna(subset="metric"))
    return pd.concat(tables)


def compare(task: str, results: Results) -> pd.DataFrame:
    """A row a method: its metric at the end and at best, and its ratios."""
    rises, rows = get_task(task).higher_is_better, []
    for column in columns(task):
        run = results.runs.loc[column.name]
        scores = results.rounds.query("run == @column.name")["metric"]
        rows.append(
            {
                "name": column.name, "temporal": run.temporal, "gradient": run.gradient,
                "metric": run.metric, "best": scores.max() if rises else scores.min(),
                "ratio_content": run.ratio_content, "ratio_wire": run.ratio_wire,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, a task each, from its ``table2.csv`` in ``results``."""
    files = sorted(results.glob("*/table2.csv"))
    return {path.parent.name: markdown(path.parent.name, pd.read_csv(path)) for path in files}

"""Table II of Sattler et al. 2018: final metric and compression ratio of six methods.

Run: ``fedsim experiment sbc-table2 --only mnist_lenet5 --data DIR``
"""

from pathlib import Path

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown, device
from fedsim import Cell, Machine, Results, RunConfig, Training
from fedsim.tasks import get_task

from .figures import figure
from .rows import PAPER, columns
from .tables import markdown

LONG = ("imagenet_resnet50",)
"""Rows for a GPU, at the published length only: a processor gets nowhere near it."""

SMOKE_TASK = "digits"
"""What ``smoke`` trains where ``--only`` names no row: it needs no data. The paper has it not."""
SMOKE = {
    "iterations": 8,
    "batch_size": 8,
    "clients": 2,
    "evaluate_every": 2,
    "test_samples": 100,
}
SHORT = {
    "cifar_resnet32": {"iterations": 400, "batch_size": 32, "test_samples": 2000},
    "char_lstm": {"iterations": 2000},
    "word_lstm": {"iterations": 300, "test_samples": 140},
}
"""Rows that take a GPU, or hours, at the published length; the others have it at this scale too."""


def cells(task: str, scale: str, data: str | None) -> dict[str, Cell]:
    """The runs of one row; a shorter budget shortens delays too."""
    changed = SMOKE if scale == "smoke" else SHORT.get(task, {}) if scale == "short" else {}
    runs = {}
    for column in columns(task):
        published = column.temporal
        if column.name == "fedavg" and task in PAPER:
            published = PAPER[task]["fedavg"][1]
        delay = published
        if "iterations" in changed:  # a quarter of the budget at most, so that clients do average
            delay = min(published, max(1, changed["iterations"] // 4))
        config = RunConfig(
            task=task,
            method=column.method,
            temporal=delay,
            gradient=column.gradient,
            machine=Machine(data=data, device=device(scale)),
            training=Training(momentum_masking=column.masking),
        )
        runs[column.name] = Cell(column.name, config.but(**changed))
    return runs


def rows(scale: str) -> list[str]:
    """The rows of Table II that a scale has."""
    return [row for row in PAPER if scale == "paper" or row not in LONG]


def show(asked: Asked, results: Results) -> Shown:
    """A row of Table II, ours beside the paper's, and its curves."""
    frame, lines = compare(asked.task, results), curves(asked.task, results)
    return Shown(
        {"table2": frame, "curves": lines},
        {"table2": markdown(asked.task, frame)},
        {"table2": figure(asked.task, lines)},
        {"table2": 9},
    )


EXPERIMENT = Experiment(
    show,
    lambda asked: list(cells(asked.task, asked.scale, asked.data).values()),
    tasks=rows,
    default=lambda scale: [SMOKE_TASK] if scale == "smoke" else None,
    what="rows",
)


def curves(task: str, results: Results) -> pd.DataFrame:
    """A row per evaluation: metric and the payload that a client had sent, by method."""
    tables = []
    for column in columns(task):
        rows = results.rounds[results.rounds["run"] == column.name]
        table = pd.DataFrame(
            {
                "method": column.title,
                "temporal": results.runs.loc[column.name, "temporal"],  # shorter in a short run
                "gradient": column.gradient,
                "iteration": rows["iteration"],
                "metric": rows["metric"],
                "up_bits": (rows["up_content_bits"] / rows["clients"]).cumsum(),
            }
        )
        tables.append(table.dropna(subset="metric"))
    return pd.concat(tables)


def compare(task: str, results: Results) -> pd.DataFrame:
    """A row per method: its metric at the end and at best, and its ratios."""
    rises, rows = get_task(task).higher_is_better, []
    for column in columns(task):
        run = results.runs.loc[column.name]
        scores = results.rounds.query("run == @column.name")["metric"]
        rows.append(
            {
                "name": column.name,
                "temporal": run.temporal,
                "gradient": run.gradient,
                "metric": run.metric,
                "best": scores.max() if rises else scores.min(),
                "ratio_content": run.ratio_content,
                "ratio_wire": run.ratio_wire,
            }
        )
    return pd.DataFrame(rows)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, a task each, from its ``table2.csv`` in ``results``."""
    files = sorted(results.glob("*/table2.csv"))
    return {path.parent.name: markdown(path.parent.name, pd.read_csv(path)) for path in files}

"""Tables 2 and 3 of Horváth et al. 2022: top-k with and without C_nat, and other compressors.

    fedsim experiment topk-cnat --scale short --data DIR

``--only`` takes tasks, rows or both; the results of a task are in a folder of its name.
"""

from pathlib import Path

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.lengths import DEAR, Length
from experiments.common.scores import learning
from experiments.common.tables import of_task
from fedsim import Cell, Results

from .rows import FITTED, ROWS
from .tables import collect, figure, markdown, matched

MASKING = {"topk": "off"}  # SBC's habit, not this paper's; the other methods leave no entry out
SMOKE = ["topk-0.39", "topk-cnat-0.39", "sign", "powersgd-2"]
TASKS = {
    "digits": {"smoke": Length(3, 8, 1)},
    "fashion_lenet5": {"short": Length(600, 32, 2), "paper": Length(2000, 128, 3)},
    **DEAR,
}
"""A row per task and scale; the paper's own task is ResNet-18 on CIFAR-10."""


def cells(task: str, names: list[str], scale: str, data: str | None) -> list[Cell]:
    """A run per method and seed."""
    size, runs = TASKS[task][scale], []
    for name in names:
        method = FITTED.get((task, name), ROWS[name].method)
        masking = MASKING.get(name.partition("-")[0], "auto")
        for seed in range(size.seeds):
            config = size.config(task, method, seed, data, masking)
            runs.append(Cell(f"{name}-seed{seed}", config))
    return runs


def runs(asked: Asked) -> list[Cell]:
    """The runs of a task: of the rows that are named, or of all (smoke: a few)."""
    names = asked.rows or (SMOKE if asked.scale == "smoke" else list(ROWS))
    return cells(asked.task, names, asked.scale, asked.data)


def show(asked: Asked, results: Results) -> Shown:
    """Both tables of a task, and its learning curves."""
    frame = collect(results.runs)
    text = of_task(asked.task, results, markdown(frame))
    return Shown(
        {"tables": frame, "curves": learning(results)},
        {"tables": text},
        {"tables": figure(asked.task, frame)},
        {"tables": None},
    )


EXPERIMENT = Experiment.of_tasks(show, runs, TASKS, ROWS)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, a task each, from its scores and volumes in ``results``."""
    named = [name for name, sizes in TASKS.items() if "short" in sizes]
    frames = {name: pd.read_csv(results / name / "tables.csv") for name in named}
    return {name: markdown(matched(frame)) for name, frame in frames.items()}

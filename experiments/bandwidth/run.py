"""The time of an iteration and to a target over bandwidth, after DeepReduce's Figure 11.

    fedsim experiment bandwidth --scale short --data DIR

Every run is trained once; the clock of each link is computed from its messages.
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.tables import of_task
from fedsim import Cell, Evaluation, Machine, Results, RunConfig, Training
from fedsim.show.plot import over_bandwidths as drawn

from .rows import FEW, ROWS, SMOKE
from .tables import across, claim, markdown, ratios, times


@dataclass(frozen=True)
class Size:
    """How long a task trains, the metric whose time is compared, and the time per iteration."""

    iterations: int
    evaluate_every: int
    seeds: int
    target: float
    compute: str
    test_samples: int | None = None
    rows: tuple[str, ...] = tuple(ROWS)


TASKS = {
    "digits": {
        "smoke": Size(10, 5, 1, 0.01, "2ms"),
        "short": Size(300, 10, 5, 0.95, "2ms"),
        "paper": Size(1200, 10, 5, 0.97, "2ms"),
    },
    "fashion_lenet5": {
        "short": Size(160, 10, 5, 0.8, "8ms", 2000, FEW),
        "paper": Size(2000, 10, 5, 0.88, "8ms"),
    },
}
"""By task and scale; the paper trains NCF on ml-20m, which may not be passed on.

A local iteration takes about so long on one thread of the machine that the README describes: given,
so that the clock is the same on every machine.
"""


def config(asked: Asked, size: Size, row: str, seed: int) -> RunConfig:
    """One run; evaluated at the same iterations whatever the delay."""
    has = ROWS[row]
    return RunConfig(
        task=asked.task,
        method=has.method,
        downlink=has.downlink,
        temporal=has.temporal,
        seed=seed,
        machine=Machine(data=asked.data),
        iterations=size.iterations,
        evaluation=Evaluation(max(1, size.evaluate_every // has.temporal), size.test_samples),
        label=has.title,
        training=Training(momentum_masking=has.masking),
    )


def cells(asked: Asked) -> list[Cell]:
    """The runs of a task: a row and a seed each."""
    size = TASKS[asked.task][asked.scale]
    names = asked.rows or (SMOKE if asked.scale == "smoke" else size.rows)
    return [
        Cell(f"{name}-seed{seed}", config(asked, size, name, seed))
        for name in names
        for seed in range(size.seeds)
    ]


def show(asked: Asked, results: Results) -> Shown:
    """An iteration and the time to the target at every bandwidth, as tables and as lines."""
    size = TASKS[asked.task][asked.scale]
    frame = times(results, size.compute, size.target)
    text = of_task(asked.task, results, "")
    return Shown(
        {"times": frame},
        {"times": text + "\n".join(_tables(frame).values())},
        {"times": drawn(across(results, size.compute, size.target), results.rounds, size.target)},
    )


def _tables(frame: pd.DataFrame) -> dict[str, str]:
    return {
        "iteration": claim(frame, "each"),
        "ratios": ratios(frame),
        "claim": claim(frame, "seconds"),
        "times": markdown(frame),
    }


EXPERIMENT = Experiment.of_tasks(show, cells, TASKS, ROWS)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, four for each task, from its times in ``results``."""
    named = [name for name, sizes in TASKS.items() if "short" in sizes]
    return {
        f"{name}/{what}": text
        for name in named
        for what, text in _tables(pd.read_csv(results / name / "times.csv")).items()
    }

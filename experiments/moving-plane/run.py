"""Controllers against every fixed cell of a grid, at equal bits and at equal simulated time.

Run: ``fedsim experiment moving-plane --scale short --data DIR``
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.inference import holm
from experiments.common.tables import table
from fedsim import Cell, Results, RunConfig

from .figures import figure
from .tables import (
    BUDGETS,
    EQUAL,
    budgets,
    compared,
    curves,
    from_start,
    gap_table,
    markdown,
    priced,
    said,
    signed,
)

NETWORK = "up=lognormal(200kbit, 1), down=20Mbit, latency=20ms, compute=5ms"
DELAYS, FRACTIONS = (1, 5, 25), (0.01, 0.1)
SMALL, LARGE = "n5-p0.01", "n5-p0.1"
"""The cells whose bits and seconds are the budgets; both were chosen before anything was run."""

WORDS = ("wins", "level", "loses", "late")
"""The verdicts of ``tables.verdict``."""


@dataclass(frozen=True)
class Length:
    """How a task is trained; ``upload``: the seconds of an upload that ``link`` fills."""

    iterations: int
    batch_size: int
    upload: float
    seeds: int = 20
    test_samples: int | None = None
    partition: str | None = None
    clients: int | None = None


TASKS = {
    "digits": {
        "smoke": Length(10, 8, 0.02, seeds=1, partition="shards(3)"),
        "short": Length(120, 32, 0.02, partition="shards(3)"),
        "paper": Length(1200, 32, 0.02, seeds=10, partition="shards(3)"),
    },
    "mnist_lenet5": {
        "short": Length(40, 16, 0.3, test_samples=500, clients=2),
        "paper": Length(2000, 128, 0.3, seeds=5),
    },
    "mnist_mlp512": {
        "short": Length(40, 16, 0.6, test_samples=500, clients=2),
        "paper": Length(2000, 40, 0.6, seeds=5),
    },
}
"""A row per task and scale."""


def controllers(size: Length) -> dict[str, str]:
    """The controllers by name; all begin at n = 5 and p = 0.01, in the middle of the grid."""
    rounds = size.iterations // 5
    return {
        "warmup": f"warmup({max(1, rounds // 3)}, first=0.25)",
        "delay_first": "delay_first(longest=25)",
        "plateau": f"plateau({max(1, rounds // 8)}, most=0.1)",
        "link": f"link({size.upload}, least=0.002, most=0.5)",
        "noise": "noise(3)",
        "adacomm": f"adacomm({max(1, size.iterations // 6)})",
    }


def rows(task: str, scale: str) -> dict[str, dict[str, object]]:
    """The settings of every row: fixed cells, then controllers."""
    fixed: dict[str, dict[str, object]] = {
        f"n{n}-p{p}": {"temporal": n, "gradient": p} for n in DELAYS for p in FRACTIONS
    }
    moving = controllers(TASKS[task][scale]).items()
    begin = {"temporal": 5, "gradient": 0.01}
    if scale == "smoke":
        fixed = {name: x for name, x in fixed.items() if name in (SMALL, LARGE)}
    return fixed | {name: {**begin, "controller": text} for name, text in moving}


def cells(task: str, scale: str, data: str | None) -> list[Cell]:
    """A run per row and seed; the score is taken every 10 iterations."""
    size, cells = TASKS[task][scale], []
    for seed in range(size.seeds):
        for name, settings in rows(task, scale).items():
            given: dict[str, Any] = {
                "task": task,
                "method": "sbc",
                "network": NETWORK,
                "seed": seed,
                "data": data,
                "iterations": size.iterations,
                "batch_size": size.batch_size,
                "partition": size.partition,
                "clients": size.clients,
                "test_samples": size.test_samples,
                **settings,
            }
            every = max(1, 10 // int(str(settings["temporal"])))
            config = RunConfig.of(**given, evaluate_every=every)
            cells.append(Cell(f"{name}-seed{seed}", config))
    return cells


def runs(asked: Asked) -> list[Cell]:
    """The runs of a task."""
    return cells(asked.task, asked.scale, asked.data)


def show(asked: Asked, results: Results) -> Shown:
    """The scores at every budget, the controllers beside the best fixed cell, and the curves."""
    lines = curves(priced(results, NETWORK))
    limits = budgets(lines, SMALL, LARGE)
    frame = compared(lines, limits, list(controllers(TASKS[asked.task][asked.scale])))
    return Shown(
        {"curves": lines, "budgets": limits, "moving": frame},
        {"moving": f"{asked.task}\n\n{markdown(frame, limits)}"},
        {"moving": figure(asked.task, lines, limits)},
    )


EXPERIMENT = Experiment.of_tasks(show, runs, TASKS)


def readme_tables(results: Path) -> Mapping[str, str]:
    """The README's tables, a task each, and the verdicts of all, from the CSV files."""
    folders = {name: results / name for name in TASKS if (results / name).is_dir()}
    frames = {name: pd.read_csv(path / "moving.csv") for name, path in folders.items()}
    limits = {name: pd.read_csv(path / "budgets.csv") for name, path in folders.items()}
    made = {name: markdown(frames[name], limits[name]) for name in folders}
    starts = {}
    for name, frame in frames.items():
        moving = list(frame.loc[frame["verdict"].notna(), "name"].unique())
        lines = pd.read_csv(folders[name] / "curves.csv")
        starts[name] = from_start(lines, limits[name], moving, SMALL)
        made[f"{name}-start"] = gap_table(SMALL, starts[name], limits[name])
    return made | {"verdicts": verdicts(frames), "verdicts-start": verdicts(starts)}


def corrected(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The gaps of all tasks with ``holm``, the p after Holm's correction over all of them."""
    every = pd.concat(frames.values(), ignore_index=True)
    moving = every[every["verdict"].notna()].copy()
    tested = moving["chance"].notna()
    moving.loc[tested, "holm"] = holm(moving.loc[tested, "chance"].to_numpy())
    return moving


def verdicts(frames: Mapping[str, pd.DataFrame]) -> str:
    """Of each controller: at how many of the tasks' budgets it wins, is level, loses.

    After Holm's correction, then by each gap's own interval.
    """
    moving, lines = corrected(frames), []
    for name, mine in moving.groupby("name", sort=False):
        gaps, told = 100 * mine["gap"], mine["holm"] < 0.05
        wins, loses = (told & (gaps > 0)).sum(), (told & (gaps < 0)).sum()
        late = (mine["verdict"] == "late").sum()
        own = [str((mine["verdict"] == word).sum()) for word in ("wins", "loses")]
        span = f"{signed(gaps.min())} to {signed(gaps.max())}"
        counts = [str(x) for x in (wins, len(mine) - wins - loses - late, loses, late)]
        lines.append([str(name), *counts, *own, signed(gaps.mean()), span])
    heading = [
        "controller",
        *map(said, WORDS),
        "wins, own interval",
        "loses, own interval",
        "mean gap",
        "gaps",
    ]
    there = moving["gap"].notna() & (moving["gap_interval"] > EQUAL)
    widths = 100 * moving.loc[there, "gap_interval"]
    return (
        f"{len(frames)} tasks, {len(BUDGETS)} budgets each\n\n{table(heading, lines)}\n"
        f"Half the width of an interval: {widths.median():.1f} points in the median, "
        f"{widths.max():.1f} at most.\n"
    )

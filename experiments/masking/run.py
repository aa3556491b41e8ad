"""When may a client's optimizer forget? Momentum masking against none, over n, p and momentum.

Run: ``fedsim experiment masking --only digits``
Run: ``fedsim experiment masking --data DIR``
"""

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.inference import holm
from experiments.common.staged import Runs
from experiments.common.tables import table
from fedsim import Results

from .figures import figure
from .rows import ARMS, SCALES, TASKS, places
from .stages import finals, trial_cells, trials
from .tables import arms, gains, law, markdown


def show(asked: Asked, results: Results | None) -> Shown:
    """Runs trials and finals of a task; its places and statistics."""
    runs = Runs(asked.out, asked.jobs)
    tried = trials(asked, runs)
    final = finals(asked, runs, tried)
    chance = TASKS[asked.task].chance
    by_place = gains(final, chance)
    told = pd.DataFrame([{"task": asked.task, **law(by_place)}])
    return Shown(
        {
            "trials": tried,
            "finals": final,
            "places": by_place,
            "law": told,
            "arms": arms(final, chance),
        },
        {"places": markdown(by_place), "law": laws(told)},
        {"masking": figure(by_place)},
    )


def laws(told: pd.DataFrame) -> str:
    """A line per task: the statistics of the plan."""
    lines = [
        [
            row["task"],
            f"{row['rho']:+.2f} (p = {row['rho_p']:.2g})",
            f"{row['limit']:.2g} ({row['limit_low']:.2g} to {row['limit_high']:.2g})",
            f"{-row['slope']:+.1f}",
            "-" if math.isnan(row["one_number_p"]) else f"{row['one_number_p']:.2g}",
            f"{row['up to mean']:+.2f} ± {row['up to interval']:.2f}",
            f"{row['above mean']:+.2f} ± {row['above interval']:.2f}",
        ]
        for row in told.to_dict("records")
    ]
    head = (
        "task",
        "rank correlation of u and points",
        "u* (95 %)",
        "points per decade above u*",
        "p that u alone does",
        "mean up to u = 0.2",
        "mean above",
    )
    return table(head, lines)


def plan(asked: Asked) -> str:
    """What a folder takes."""
    scale = SCALES[asked.scale]
    tried, spots = len(trial_cells(asked)), len(places(asked.task, scale))
    last = spots * len(ARMS) * scale.seeds
    return f"{asked.task}: {tried} trials and {last} finals of {scale.iterations} iterations"


EXPERIMENT = Experiment(
    show,
    tasks=lambda scale: ("digits",) if scale == "smoke" else tuple(TASKS),
    plan=plan,
)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, of the tasks that were run."""
    there = [task for task in TASKS if (results / task / "law.csv").exists()]
    told = {task: markdown(pd.read_csv(results / task / "places.csv")) for task in there}
    frames = [pd.read_csv(results / task / "law.csv") for task in there]
    if frames:
        told["law"] = laws(pd.concat(frames))
    if there and all((results / task / "arms.csv").exists() for task in there):
        told["arms"] = compared(results, there)
    return told


def compared(results: Path, tasks: Sequence[str]) -> str:
    """A row per task and pair of arms; Holm's correction is over all of them."""
    frames = [pd.read_csv(results / task / "arms.csv").assign(task=task) for task in tasks]
    lines = pd.concat(frames, ignore_index=True)
    lines["p"] = holm(lines["p"].to_numpy())
    return table(
        ("task", "arms", "points, mean over places (95 %)", "p (Holm)"),
        [
            [
                row["task"],
                f"{row['first']} less {row['second']}",
                f"{row['points']:+.2f} ± {row['interval']:.2f}",
                f"{row['p']:.2g}",
            ]
            for row in lines.to_dict("records")
        ],
    )

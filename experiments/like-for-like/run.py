"""Every published method at equal bits, its delay and its rate tuned by the same number of trials.

    fedsim experiment like-for-like --only digits --jobs 2
    fedsim experiment like-for-like --only digits --add 'ef(topk({p}) | cnat | golomb)'

The second trains one method more and puts its rows beside the others', which are not run again.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.tables import table
from fedsim import Results, UsageError
from fedsim.search import chosen
from fedsim.show.plot import save

from . import tables
from .figures import beaten, figure, ranks
from .points import Points
from .rows import DENSE, ROWS, Row, spelled
from .stages import Stages
from .tasks import TASKS

RESULTS = Path(__file__).parent / "results"
SMOKE = (DENSE, "sbc", "drive")
FRAMES = ("trials", "finals", "curves")


@dataclass(frozen=True)
class Frames:
    """What the runs of a task came to.

    Attributes:
        trials: a line per trial, scored on the validation part.
        finals: a line per method, budget and seed, scored on held-out samples.
        curves: the evaluations of ``finals``.
    """

    trials: pd.DataFrame
    finals: pd.DataFrame
    curves: pd.DataFrame

    @classmethod
    def read(cls, folder: Path) -> "Frames":
        """From the CSV files in a folder."""
        return cls(*(pd.read_csv(folder / f"{name}.csv") for name in FRAMES))

    def beside(self, others: "Frames") -> "Frames":
        """These and those of the other methods, which stay where they were."""
        made = []
        for name in FRAMES:
            mine, theirs = getattr(self, name), getattr(others, name)
            kept = theirs[~theirs["method"].isin(mine["method"].unique())]
            made.append(pd.concat([kept, mine], ignore_index=True))
        return Frames(*made)


def play(asked: Asked, rows: dict[str, Row]) -> Frames:
    """Tunes the methods and runs what was chosen."""
    stages = Stages(Points(asked, rows), asked.out, asked.jobs)
    tried = stages.tune(rows)
    trials = {
        (pair, number): stages.points.run(*pair, trial)
        for pair, trials_of in tried.items() for number, trial in enumerate(trials_of)
    }  # fmt: skip
    finals = stages.finals(tried)
    return Frames(
        stages.frame(trials, "trials").rename(columns={"seed": "trial"}),
        stages.frame(finals, "finals"),
        stages.curves(finals),
    )


def show(asked: Asked, results: Results | None) -> Shown:
    """Runs what is asked for and shows it beside what was run before."""
    rows = {name: ROWS[name] for name in asked.rows} if asked.rows else dict(ROWS)
    if asked.added:
        rows = {name: ROWS[name] for name in asked.rows} | added(asked.added)
    frames = play(asked, rows)
    for folder in (asked.out, RESULTS / asked.task if asked.scale == "short" else asked.out):
        if all((folder / f"{name}.csv").exists() for name in FRAMES):
            frames = frames.beside(Frames.read(folder))
            break
    beside = {name: asked.out.parent / name / "finals.csv" for name in TASKS if name != asked.task}
    finals = {name: pd.read_csv(path) for name, path in beside.items() if path.exists()}
    across({**finals, asked.task: frames.finals}, asked.out.parent)
    return shown(asked.task, frames)


def across(finals: dict[str, pd.DataFrame], folder: Path) -> None:
    """Draws ranks and duels over all tasks that have run, above their folders."""
    save(ranks(finals), folder / "ranks.png")
    save(beaten(finals), folder / "duels.png")


def shown(task: str, frames: Frames) -> Shown:
    """Tables, texts and the figure of a task."""
    texts = tables.texts(frames.finals, frames.curves)
    return Shown(
        {name: getattr(frames, name) for name in FRAMES},
        {name: f"{task}\n\n{text}" for name, text in texts.items()},
        {"budgets": figure(task, frames.finals)},
    )


def added(text: str) -> dict[str, Row]:
    """A method of a user's own by what tables and folders call it.

    Raises:
        UsageError: a text that cannot be read, or a name that is compared already.
    """
    name = re.sub(r"[^A-Za-z0-9]+", "-", text.replace("{p}", "p")).strip("-")
    if name in ROWS:
        raise UsageError(f"--add is {text!r}: {name} is compared already; --only {name} runs it")
    try:
        chosen([text])
    except UsageError as error:
        raise UsageError(str(error).replace("--methods", "--add", 1)) from error
    return {name: Row(text, "added", "added")}


EXPERIMENT = Experiment(
    show,
    tasks=lambda scale: [name for name, sizes in TASKS.items() if scale in sizes],
    rows=lambda scale: ROWS,
    default=lambda scale: ["digits", *SMOKE] if scale == "smoke" else None,
    what="tasks and rows",
    adds=True,
)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables: the methods, and what the CSV files say."""
    lines = [[name, spelled(row), row.source] for name, row in ROWS.items()]
    made = {"methods": table(["method", "as it is run", "source"], lines)}
    frames = {
        name: Frames.read(results / name) for name in TASKS if (results / name).is_dir()
    }
    for task, own in frames.items():
        texts = tables.texts(own.finals, own.curves)
        made |= {f"{task}/{name}": text for name, text in texts.items()}
    if frames:
        made["ranks"] = tables.ranks({task: own.finals for task, own in frames.items()})
    return made

"""Does the distortion of messages predict which method errs least within equal bits?

    fedsim experiment distortion --data DIR

Trains a short dense run of every task to record updates, a task at a time; tasks whose messages are
in the results folder are not recorded again. Accuracies are those of like-for-like's final runs.
"""

from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, grids
from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.tables import table, write_csv
from fedsim import Results

from . import analysis, messages

like = import_module("experiments.like-for-like.run")


def show(asked: Asked, results: Results | None) -> Shown:
    """Records updates, measures messages, and compares with like-for-like's finals."""
    names = asked.rows or list(messages.rows.TASKS)
    runs = messages.finals(names)
    chosen = messages.cells(runs)
    allowed = pd.concat([messages.candidates(name, asked.data) for name in names])
    both = pd.concat([chosen, allowed])
    lines = []
    for name in names:
        columns = both.loc[both["task"] == name, ["method", "strength", "n"]]
        wanted = {messages.Message(*line) for line in columns.itertuples(index=False)}
        path = asked.out / "messages" / f"{name}.csv"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_csv(path, pd.DataFrame(messages.measured(name, wanted, asked.data)))
        lines.append(pd.read_csv(path, dtype={"strength": str}, keep_default_na=False))
    distortions = pd.concat(lines, ignore_index=True)
    cells = messages.noise(chosen, distortions).merge(analysis.outcomes(runs))
    untrained = messages.least(messages.noise(allowed, distortions))
    at_places = analysis.places(cells, untrained)
    tasks = analysis.by_task(at_places, analysis.families(cells))
    frames = {
        "distortions": distortions,
        "cells": cells,
        "untrained": untrained,
        "places": at_places,
        "tasks": tasks,
        "summary": analysis.summary(tasks),
    }
    texts = {"tables": f"{summary(frames['summary'])}\n{places(at_places)}"}
    return Shown(frames, texts, {"noise": figure(cells)})


EXPERIMENT = Experiment(
    show,
    rows=lambda scale: messages.rows.TASKS,
    default=lambda scale: ["digits_skewed"] if scale == "smoke" else None,
)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables: the methods, and what the CSV files hold."""
    tables = {"methods": methods()}
    if (results / "summary.csv").exists():
        tables["summary"] = summary(pd.read_csv(results / "summary.csv"))
        tables["places"] = places(pd.read_csv(results / "places.csv"))
    return tables


def methods() -> str:
    """A row per method: its text in like-for-like, and its family."""
    families = {"unbiased": messages.UNBIASED, "with memory": messages.MEMORY}
    lines = [
        [name, f"`{messages.rows.ROWS[name].text}`".replace("|", r"\|"), family]
        for family, names in families.items()
        for name in names
    ]
    return table(("name", "method", "family"), lines)


def summary(frame: pd.DataFrame) -> str:
    """A row per statistic: its mean and interval over tasks, and over data sets."""
    lines = [
        [
            row["title"],
            ends(row["mean"], row["low"], row["high"]),
            ends(row["set_mean"], row["set_low"], row["set_high"]),
        ]
        for row in frame.to_dict("records")
    ]
    return table(("statistic", "over tasks", "over data sets"), lines)


def ends(mean: float, low: float, high: float) -> str:
    """A mean with its interval.

    Example:
        >>> ends(0.5, 0.1, 0.9), ends(0.5, float("nan"), float("nan"))
        ('0.50 (0.10 to 0.90)', '0.50')
    """
    if pd.isna(mean):
        return "—"
    return f"{mean:.2f}" if pd.isna(low) else f"{mean:.2f} ({low:.2f} to {high:.2f})"


def places(frame: pd.DataFrame) -> str:
    """A row per place: tau of nu and of 1 / R, and the methods of the least nu and the best."""
    lines = [
        [
            row["task"],
            like.share(row["budget"]),
            f"{row['tau']:.2f}",
            f"{row['tau_rounds']:.2f}",
            f"{row['tau_untrained']:.2f}",
            f"{row['tau_halves']:.2f}",
            row["best"],
            f"{row['pick']}, {row['behind']:.1f}",
            f"{row['pick_untrained']}, {row['behind_untrained']:.1f}",
        ]
        for row in frame.to_dict("records")
    ]
    taus = ("tau of nu", "of 1 / R", "of the least nu allowed", "of half the seeds")
    picks = ("least nu as run, points behind", "least nu allowed, points behind")
    head = ("task", "budget", *taus, "best", *picks)
    return table(head, lines)


def figure(cells: pd.DataFrame) -> Figure:
    """Log-odds of an error less the place's mean over nu, a panel per task."""
    names = list(cells["task"].unique())
    drawn = canvas(max(2.3 * len(names), 6), 3.6)
    level = cells["logit"] - cells.groupby(messages.PLACE)["logit"].transform("mean")
    panels = np.atleast_1d(drawn.subplots(1, len(names), sharey=True))
    for axes, name in zip(panels, names, strict=True):
        for i, budget in enumerate(sorted(cells["budget"].unique())):
            for family, mark in ((messages.UNBIASED, "o"), (messages.MEMORY, "x")):
                at = (cells["task"] == name) & (cells["budget"] == budget)
                at &= cells["method"].isin(family)
                memory = "memory" if mark == "x" else "unbiased"
                label = f"{like.share(budget)}, {memory}"
                nu = cells.loc[at, "nu"]
                axes.semilogx(nu, level[at], mark, color=COLOURS[i], label=label, markersize=4)
        axes.set(xlabel="nu = D / (K R)", title=name)
    panels[0].set_ylabel("log-odds of an error\nless the place's mean")
    marks, labels = panels[0].get_legend_handles_labels()
    drawn.legend(marks, labels, loc="outside lower center", ncols=3, fontsize=7)
    grids(panels)
    return drawn

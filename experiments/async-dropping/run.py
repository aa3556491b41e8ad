"""Asynchronous SGD with a sharded parameter server, dense and dropped (Aji & Heafield 2017).

Run: ``fedsim experiment async-dropping --data DIR``
"""

import math
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, grids
from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.scores import row_and_seed, rows_of
from experiments.common.tables import spread, table
from fedsim import Results

from .rows import ROWS, TARGET, cells

LEARNT = (
    "method",
    "seeds",
    "accuracy, %",
    f"updates to {TARGET:.0%}",
    f"seconds to {TARGET:.0%}",
    "staleness",
    "bits per entry, up",
    "down",
)
SPEED = ("method", "simulated images/s", "ratio", "paper: images/s", "ratio")


def show(asked: Asked, results: Results) -> Shown:
    """The runs, the curves, and both as tables and a figure."""
    runs, lines = collect(results), curves(results)
    texts = {"tables": f"{learnt(runs)}\n{speeds(runs)}"}
    return Shown({"runs": runs, "curves": lines}, texts, {"async-dropping": figure(lines)})


EXPERIMENT = Experiment(
    show,
    lambda asked: cells(asked.rows, asked.scale, asked.data),
    rows=lambda scale: ROWS,
    default=lambda scale: [],
    what="rows",
)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, from what is in ``results``."""
    runs = pd.read_csv(results / "runs.csv")
    return {"learnt": learnt(runs), "speed": speeds(runs)}


def collect(results: Results) -> pd.DataFrame:
    """A row per run; an update is a push of one worker, to all parts.

    ``target_updates`` and ``target_seconds`` are those of the first evaluation at ``TARGET`` or
    above; empty where there is none.
    """
    made = []
    for run, mine in results.rounds.groupby("run", sort=False):
        name, seed = row_and_seed(run)
        cell, workers = results.runs.loc[run], int(mine["clients"].iloc[0])
        there = mine[mine["metric"] >= TARGET].head(1)
        seconds = mine["sim_end_seconds"]
        images = workers * cell["rounds"] * int(results.configs[str(run)]["batch_size"])
        stale = mine["staleness"].fillna(0) if "staleness" in mine else pd.Series([0.0])
        entries = cell["parameters"] * cell["rounds"]
        made.append(
            {
                "name": name,
                "seed": seed,
                "workers": workers,
                "rounds": cell["rounds"],
                "accuracy_percent": 100 * cell["metric"],
                "target_updates": workers * there["round"].squeeze() if len(there) else None,
                "target_seconds": seconds[there.index].squeeze() if len(there) else None,
                "seconds": seconds.iloc[-1],
                "staleness": stale.mean(),  # 0 where everybody waits
                "up_bits_per_entry": cell["up_wire_bits"] / entries,
                "down_bits_per_entry": cell["down_wire_bits"] / entries,
                "images": images / seconds.iloc[-1],
            }
        )
    return pd.DataFrame(made).sort_values(["name", "seed"], key=_places, ignore_index=True)


def _places(column: pd.Series) -> pd.Series:
    """Rows in the order of ``ROWS``."""
    return column.map(list(ROWS).index) if column.name == "name" else column


def curves(results: Results) -> pd.DataFrame:
    """A row per row of the experiment and evaluation: means over seeds."""
    scored = results.rounds.dropna(subset=["metric"])
    scored = scored.assign(name=rows_of(scored["run"]), updates=scored["round"] * scored["clients"])
    columns = {"metric": "accuracy_percent", "sim_end_seconds": "seconds", "loss": "loss"}
    means = scored.groupby(["name", "updates"])[[*columns]].mean().rename(columns=columns)
    means["accuracy_percent"] *= 100
    return means.reset_index().sort_values(["name", "updates"], key=_places, ignore_index=True)


def learnt(runs: pd.DataFrame) -> str:
    """How each row learns, per update and per simulated second."""
    shown = [
        ("accuracy_percent", 2),
        ("target_updates", 0),
        ("target_seconds", 2),
        ("staleness", 2),
        ("up_bits_per_entry", 3),
        ("down_bits_per_entry", 3),
    ]
    lines = []
    for name, own in runs.groupby("name", sort=False):
        cells = [
            "–"
            if (x := own[column]).isna().any()
            else spread(x.mean(), x.std(ddof=1), len(x), places)
            for column, places in shown
        ]
        lines.append([ROWS[str(name)].title, f"{len(own)}", *cells])
    return table(LEARNT, lines)


def speeds(runs: pd.DataFrame) -> str:
    """Table 1's speeds beside ours, means over seeds, each over that of no dropping.

    Without a run that drops nothing there is nothing to divide by.
    """
    ours = runs.groupby("name", sort=False)["images"].mean()
    dense, paper = ours.get("dense", float("nan")), ROWS["dense"].images
    lines = []
    for name, images in ours.items():
        theirs = ROWS[str(name)].images
        printed = ["–" if math.isnan(theirs) else f"{theirs}", _times(theirs / paper)]
        lines.append([ROWS[str(name)].title, f"{images:.0f}", _times(images / dense), *printed])
    return table(SPEED, lines)


def _times(ratio: float) -> str:
    return "–" if math.isnan(ratio) else f"×{ratio:.2f}"


def figure(lines: pd.DataFrame) -> Figure:
    """Accuracy over updates, and over simulated time."""
    drawn = canvas(9, 3.6)
    panels = drawn.subplots(1, 2, sharey=True)
    for place, (name, mine) in enumerate(lines.groupby("name", sort=False)):
        look = {"color": COLOURS[place % len(COLOURS)], "label": ROWS[str(name)].title}
        panels[0].plot(mine["updates"], mine["accuracy_percent"], **look)
        panels[1].plot(mine["seconds"], mine["accuracy_percent"], **look)
    panels[0].set(xlabel="updates of all workers", ylabel="accuracy (%)")
    panels[1].set(xlabel="simulated seconds")
    if lines["accuracy_percent"].max() > 90:
        panels[0].set_ylim(80, 100)
    panels[0].legend(fontsize=8)
    grids(panels)
    return drawn

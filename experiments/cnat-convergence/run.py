"""Fig. 5, 7, 13 to 15, 19 and 20 of Horváth et al. 2022: training with and without C_nat.

Run: ``fedsim experiment cnat-convergence --data DIR``
"""

from pathlib import Path

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.scores import of_row
from experiments.common.tables import of_task, spread, table
from fedsim import Results

from .figures import figure
from .rows import METHODS, PAIRS, PANELS, TASKS, cells

__all__ = ["EXPERIMENT", "METHODS", "PAIRS", "PANELS", "collect", "compare", "curves", "markdown"]

POINTS = 1.0
"""Percentage points of accuracy within which two methods count as equal."""

SMOOTH = 10
"""Rounds over which training losses are averaged."""

METHOD_COLUMNS = (
    "method",
    "accuracy",
    "training loss at the end",
    "above none's, mean of all rounds",
    "bits per entry, up",
    "down",
)
PAIR_COLUMNS = ("figure", "from", "to", "accuracy, points", "fewer bits up", "down", "as good?")


def show(asked: Asked, results: Results) -> Shown:
    """The methods, the pairs and the curves of a task."""
    frame, lines = collect(results), curves(results)
    compared = compare(frame)
    text = of_task(asked.task, results, markdown(frame, compared))
    return Shown(
        {"methods": frame, "pairs": compared, "curves": lines},
        {"tables": text},
        {"convergence": figure(asked.task, lines)},
    )


EXPERIMENT = Experiment(
    show,
    lambda asked: cells(asked.task, asked.scale, asked.data),
    tasks=lambda scale: [name for name in TASKS if cells(name, scale, None)],
    default=lambda scale: ["digits"] if scale == "smoke" else None,
)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, a task each, from its means over seeds in ``results``."""
    frames = {name: pd.read_csv(results / name / "methods.csv") for name in TASKS}
    return {name: markdown(frame, compare(frame)) for name, frame in frames.items()}


def collect(results: Results) -> pd.DataFrame:
    """A row per method: means over seeds; bits are of payloads per entry and round.

    ``loss_above_none``: how much more the training loss is than that of no compression, on the
    same batches, as a mean over all rounds.
    """
    plain = of_row(results.rounds, "none")["train_loss"].mean()
    rows = []
    for name, method in METHODS.items():
        mine = of_row(results.runs, name)
        if mine.empty:
            continue
        sent = mine["parameters"] * mine["rounds"]
        rounds = results.rounds[results.rounds["run"].isin(mine.index)]
        ends = rounds["round"] > rounds["round"].max() - SMOOTH
        rows.append(
            {
                "name": name,
                "title": method.title,
                "method": method.method,
                "seeds": len(mine),
                "accuracy_percent": 100 * mine["metric"].mean(),
                "accuracy_spread": 100 * mine["metric"].std(ddof=1),
                "train_loss": rounds.loc[ends, "train_loss"].mean(),
                "loss_above_none": rounds["train_loss"].mean() - plain,
                "up_bits_per_entry": (mine["up_wire_bits"] / sent).mean(),
                # The model of the last round needs no way down.
                "down_bits_per_entry": (
                    mine["down_wire_bits"] / mine["parameters"] / (mine["rounds"] - 1)
                ).mean(),
            }
        )
    return pd.DataFrame(rows)


def curves(results: Results) -> pd.DataFrame:
    """A row per method and ten rounds, means over seeds: mean training loss, accuracy at the end.

    ``accuracy_percent`` is empty where there was no evaluation.
    """
    tables = []
    for name in METHODS:
        mine = of_row(results.rounds, name)
        if mine.empty:
            continue
        blocks = mine.groupby((mine["round"] - 1) // SMOOTH)
        table = blocks.agg(iteration=("iteration", "max"), train_loss=("train_loss", "mean"))
        table["accuracy_percent"] = 100 * blocks["metric"].mean()  # over what is not empty
        table.insert(0, "name", name)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def compare(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per pair: how many points the second loses, and how many times fewer bits it sends."""
    by = frame.set_index("name")
    rows = []
    for pair in PAIRS:
        if not {pair.plain, pair.other} <= {*by.index}:
            continue
        plain, other = by.loc[pair.plain], by.loc[pair.other]
        change = other["accuracy_percent"] - plain["accuracy_percent"]
        rows.append(
            {
                "figure": pair.figure,
                "without": pair.plain,
                "with": pair.other,
                "points": change,
                "up_saving": plain["up_bits_per_entry"] / other["up_bits_per_entry"],
                "down_saving": plain["down_bits_per_entry"] / other["down_bits_per_entry"],
                "holds": bool(change >= -POINTS),
            }
        )
    return pd.DataFrame(rows)


def markdown(frame: pd.DataFrame, compared: pd.DataFrame) -> str:
    """The methods, then the pairs."""
    methods = [
        [
            row["title"],
            spread(row["accuracy_percent"], row["accuracy_spread"], row["seeds"], 2),
            f"{row['train_loss']:.3f}",
            f"{row['loss_above_none']:+.4f}",
            f"{row['up_bits_per_entry']:.2f}",
            f"{row['down_bits_per_entry']:.2f}",
        ]
        for row in frame.to_dict("records")
    ]
    pairs = [
        [
            row["figure"],
            METHODS[row["without"]].title,
            METHODS[row["with"]].title,
            f"{row['points']:+.2f}",
            f"×{row['up_saving']:.2f}",
            f"×{row['down_saving']:.2f}",
            "yes" if row["holds"] else "no",
        ]
        for row in compared.to_dict("records")
    ]
    return f"{table(METHOD_COLUMNS, methods)}\n{table(PAIR_COLUMNS, pairs)}"

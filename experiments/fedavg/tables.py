"""Rounds to a target along an accuracy's curve, and the tables of them."""

import math

import numpy as np
import pandas as pd

from experiments.common.scores import half_width
from experiments.common.tables import table
from fedsim.ground.units import bits

from .rows import ROWS, TARGETS, UNIT, WHOLE, Row

HEADING = (
    "model",
    "E",
    "B",
    "clients hold",
    "sent as",
    "rate",
    "seeds at the target",
    "rounds to the target",
    "paper",
    "up per client until then",
)


def rounds_to(accuracy: pd.Series, target: float) -> float:
    """The round at which the best accuracy so far crosses a target; NaN if it never does.

    As the paper counts: with a_r the accuracy after round r, m_r = max(a_1, ..., a_r), and the
    crossing lies on the line between m_{r-1} and m_r. A run that is there after its first round has
    1.

    Args:
        accuracy: after rounds 1, 2, ..., in this order.
        target: of the same unit.

    Example:
        >>> rounds_to(pd.Series([0.5, 0.9, 0.8, 1.0]), 0.95)
        3.5
    """
    best = np.maximum.accumulate(accuracy.to_numpy())
    there = np.flatnonzero(best >= target)
    if not len(there):
        return math.nan
    first = int(there[0])
    if first == 0:
        return 1.0
    low, high = best[first - 1], best[first]
    return float(first + (target - low) / (high - low))


def compared(curves: pd.DataFrame) -> pd.DataFrame:
    """A line per row: the mean of rounds and bits to the target over its seeds.

    Where a seed never is at the target, a row has neither, and ``reached`` counts those that are.
    Bits are those of all whole rounds until then.
    """
    made = []
    for name, lines in curves.groupby("name", sort=False):
        target, counts, sent = TARGETS[ROWS[str(name)].task], [], []
        for _, run in lines.groupby("seed"):
            counts.append(rounds_to(run["accuracy"], target))
            until = run[run["accuracy"] >= target]["up_bits"]
            sent.append(until.iloc[0] if len(until) else math.nan)
        reached = pd.Series(counts).notna()
        every = bool(reached.all())
        made.append(
            {
                "name": name,
                "target": target,
                "seeds": len(counts),
                "reached": int(reached.sum()),
                "rounds": pd.Series(counts).mean() if every else math.nan,
                "rounds_interval": half_width(pd.Series(counts)) if every else math.nan,
                "fewest": min(counts) if every else math.nan,
                "most": max(counts) if every else math.nan,
                "up_bits": pd.Series(sent).mean() if every else math.nan,
                "best": lines.groupby("seed")["accuracy"].max().mean(),
            }
        )
    return pd.DataFrame(made)


def _settings(row: Row) -> list[str]:
    batch = "∞" if row.batch == WHOLE else str(row.batch)
    held = "600 at random" if row.partition == "iid" else "two shards"
    return [
        "2NN, pixels 0 to 1" if row.task == UNIT else row.task.removeprefix("mnist_").upper(),
        str(row.epochs),
        batch,
        held,
        row.method,
        f"{row.lr:g}",
    ]


def markdown(frame: pd.DataFrame) -> str:
    """The table of rounds to the target, ours and the paper's."""
    rows = []
    for line in frame.to_dict("records"):
        row = ROWS[line["name"]]
        count = f"not within {row.rounds}; {100 * line['best']:.1f} % at best"
        if line["reached"] == line["seeds"]:
            half = f" ± {line['rounds_interval']:.1f}" if line["seeds"] > 1 else ""
            count = f"{line['rounds']:.1f}{half}"
        sent = "" if math.isnan(line["up_bits"]) else bits(line["up_bits"])
        rows.append(
            [
                *_settings(row),
                f"{line['reached']} of {line['seeds']}",
                count,
                str(row.paper or ""),
                sent,
            ]
        )
    return table(HEADING, rows)


def tried(curves: pd.DataFrame) -> pd.DataFrame:
    """A line per row and rate: the best accuracy of the trial, and whether the rate is chosen."""
    made = []
    for name, lines in curves.groupby("name", sort=False):
        row, _, rate = str(name).rpartition("-lr")
        made.append(
            {
                "row": row,
                "lr": float(rate),
                "rounds": int(lines["round"].max()),
                "best": lines["accuracy"].max(),
            }
        )
    frame = pd.DataFrame(made)
    first = frame.groupby("row")["best"].transform("max")
    return frame.assign(chosen=frame["best"] == first)


def rates_markdown(frame: pd.DataFrame) -> str:
    """The table of the rates that were tried; the chosen one is bold."""
    rows = [
        [
            line["row"],
            str(line["rounds"]),
            f"**{line['lr']:g}**" if line["chosen"] else f"{line['lr']:g}",
            f"{100 * line['best']:.2f}",
        ]
        for line in frame.to_dict("records")
    ]
    return table(("row", "rounds", "rate", "best accuracy (%)"), rows)

"""What the coders of a method add to it: tables of messages that were coded again."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t

from experiments.common.prose import wrap
from experiments.common.tables import table

from .rows import ROWS, TASKS

CASE = ["task", "budget", "method"]
SIZES = ["run", "paper", "best"]
BUDGET = 0.00333
"""The one whose tasks a method's number is over."""

GAIN, SAME = 0.95, 0.99
"""Ratios below the first, and above the second, are in the page's sentence."""


def per_round(messages: pd.DataFrame) -> pd.DataFrame:
    """A line per case and round: bits of an upload, as run and in the two codes."""
    each = messages[SIZES].div(messages["messages"], axis=0)
    return pd.concat([messages[[*CASE, "round"]], each], axis=1)


def by_case(messages: pd.DataFrame, codes: pd.DataFrame) -> pd.DataFrame:
    """A line per case: mean bits per upload, ``ratio`` (best over paper's), ``sd`` over rounds."""
    rounds = per_round(messages)
    rounds["ratio"] = rounds["best"] / rounds["paper"]
    grouped = rounds.groupby(CASE, sort=False)
    frame = (
        grouped[SIZES]
        .mean()
        .assign(rounds=grouped.size(), ratio=grouped["ratio"].mean(), sd=grouped["ratio"].std())
    )
    best = codes[codes["is_best"]].groupby(CASE)["coder"].agg(" | ".join)
    return frame.join(best.rename("coders")).reset_index()


def by_method(cases: pd.DataFrame) -> pd.DataFrame:
    """A line per method: the geometric mean of ``ratio`` over tasks, with its 95 % interval."""
    lines = []
    for method, part in cases[cases["budget"] == BUDGET].groupby("method", sort=False):
        logs, count = np.log(part["ratio"]), len(part)
        half = t.ppf(0.975, count - 1) * logs.std() / count**0.5 if count > 1 else np.nan
        ends = np.exp(logs.mean() + half * np.array([0, -1, 1])) if count > 1 else [np.nan] * 3
        mean = np.exp(logs.mean())
        lines.append(
            {"method": method, "tasks": count, "ratio": mean, "low": ends[1], "high": ends[2]}
        )
    return pd.DataFrame(lines)


def answer(cases: pd.DataFrame, methods: pd.DataFrame, runs: pd.DataFrame) -> str:
    """The tables in sentences."""
    at = cases[cases["budget"] == BUDGET]
    tasks = [f"`{name}`" for name in TASKS if name in set(at["task"])]
    short = methods[methods["ratio"] < GAIN].sort_values("ratio", kind="stable")
    level = methods.loc[methods["ratio"] > SAME, "method"]
    least = short.iloc[0]
    parts = ", ".join(f"{row['method']} {row['ratio']:.2f}" for row in short.to_dict("records"))
    one = "is one, so that there is no interval"
    count = f"are {len(tasks)}" if len(tasks) > 1 else one
    text = (
        f"**A coder changes the size of `{least['method']}` by a factor of "
        f"{1 / least['ratio']:.1f}, and that of {len(short)} of {len(methods)} methods by more "
        f"than a twentieth.** The unit of repetition is the task, and there {count} "
        f"({', '.join(tasks)}, budget 1/300). Best over paper's: {parts}. For all others in the "
        "table the paper's code is within a twentieth of the best, and within 1 % for "
        f"{', '.join(level)}. Planned: 8 core minutes; spent: {runs['seconds'].sum() / 60:.1f} "
        "core minutes."
    )
    return wrap(text)


def coder_tables(folder: Path) -> dict[str, str]:
    """The page's tables, none where nothing was coded again."""
    if not (folder / "messages.csv").exists():
        return {}
    cases = by_case(pd.read_csv(folder / "messages.csv"), pd.read_csv(folder / "codes.csv"))
    methods = by_method(cases)
    order = {name: place for place, name in enumerate([*TASKS, *ROWS])}
    cases = cases.sort_values(
        ["budget", "task", "method"],
        key=lambda x: -x if x.name == "budget" else x.map(order),
        kind="stable",
    )
    lines = [
        [
            row["task"],
            "1/{:.0f}".format(float(f"{1 / row['budget']:.2g}")),
            row["method"],
            f"{row['rounds']}",
            *(f"{row[name] / 1000:.1f}" for name in SIZES),
            f"{row['ratio']:.3f}" + ("" if pd.isna(row["sd"]) else f" ± {row['sd']:.3f}"),
            "" if pd.isna(row["coders"]) else row["coders"].replace("|", "\\|"),
        ]
        for row in cases.to_dict("records")
    ]
    head = (
        "task",
        "budget",
        "method",
        "rounds coded",
        "as run (kbit)",
        "paper's coder",
        "best coder",
        "best / paper's",
        "best coders",
    )
    means = [
        [
            row["method"],
            f"{row['tasks']}",
            f"{row['ratio']:.3f}",
            "" if pd.isna(row["low"]) else f"{row['low']:.3f} to {row['high']:.3f}",
        ]
        for row in methods.sort_values("ratio", kind="stable").to_dict("records")
    ]
    return {
        "coders/answer": answer(cases, methods, pd.read_csv(folder / "runs.csv")),
        "coders": table(head, lines),
        "coders/methods": table(("method", "tasks", "best / paper's", "95 % interval"), means),
    }

"""The report's sections of simulated time: the metric over it, who leads when, and one round."""

from html import escape
from math import inf

import pandas as pd

from fedsim.ground import units
from fedsim.network.pricing import SECONDS
from fedsim.results.load import Results
from fedsim.results.schema import clients_of
from fedsim.show.budgets import budgets, leaders
from fedsim.show.chart import Axis, Chart, stacked
from fedsim.show.curves import TIME
from fedsim.show.style import higher_is_better

# Paul Tol's "bright" scheme, safe for the colour-blind; waiting is pale.
_COLOURS = {"download": "#4477aa", "compute": "#ccbb44", "upload": "#ee6677", "waiting": "#dddddd"}
MAX_CLIENTS = 30
"""Clients that one figure can hold; of more, the slowest."""

ROUNDS = 3
"""Rounds that are drawn: one of each of so many runs."""

_TIMELINE = (
    "A bar per client of the run's middle round: its download, its training, its upload, and how "
    "long it waits until the round is over."
)


def sentence(results: Results) -> str:
    """Which method is best from when, as a paragraph; empty of one method.

    Until when is said where nobody leads then: the best had ended, and no other is better yet.
    """
    rounds = timed_rounds(results.done_rounds)
    higher = higher_is_better(rounds)
    spans = leaders(budgets(rounds, higher, x=TIME), higher)
    if rounds["label"].nunique() < 2 or not spans:
        return ""
    starts = [low for low, _, _ in spans[1:]] + [-inf]
    gaps = [high < start for (_, high, _), start in zip(spans, starts, strict=True)]
    texts = [
        f"{name} from {units.duration(low)}" + (f" to {units.duration(high)}" if gap else "")
        for (low, high, name), gap in zip(spans, gaps, strict=True)
    ]
    over = " Each overtakes the one before it at that time." if len(spans) > 1 else ""
    if any(gaps):
        over = " In between, the best had ended and no other was better yet."
    return f"<p>Best so far on the simulated clock: {escape(', '.join(texts))}.{over}</p>"


def timed_rounds(rounds: pd.DataFrame) -> pd.DataFrame:
    """The rounds that have simulated seconds."""
    return rounds[rounds[TIME].notna()] if TIME in rounds else rounds.iloc[:0]


def middle_rounds(results: Results) -> dict[str, Chart]:
    """The middle round of the first runs that had a network, by the run's name."""
    shown: dict[str, Chart] = {}
    for name, rows in timed_rounds(results.done_rounds).groupby("run", sort=False):
        folder = results.folders[str(name)]
        if len(shown) == ROUNDS or not (folder / "clients.parquet").exists():
            continue
        number = rows["round"].iloc[len(rows) // 2]
        clients = clients_of(folder)
        if SECONDS[0] in clients:
            title = f"{name}, round {number}"
            shown[title] = timeline(clients[clients["round"] == number])
    return shown


def caption(results: Results) -> str:
    """What the timelines show, and what they leave out."""
    rounds = timed_rounds(results.done_rounds)
    many = rounds["run"].nunique() > ROUNDS
    text = _TIMELINE + (f" The first {ROUNDS} runs." if many else "")
    return text + (
        f" The {MAX_CLIENTS} slowest clients." if (rounds["clients"] > MAX_CLIENTS).any() else ""
    )


def timeline(clients: pd.DataFrame) -> Chart:
    """A bar per client, the slowest first."""
    complete = clients.dropna(subset=list(SECONDS))
    busy = complete[list(SECONDS[:3])].sum(axis=1)
    shown = complete.loc[busy.sort_values(ascending=False, kind="stable").index[:MAX_CLIENTS]]
    names = [
        f"client {row['client']}" + (" (not used)" if row["failures"] else "")
        for row in shown.to_dict("records")
    ]
    parts = {}
    for (part, colour), column in zip(_COLOURS.items(), SECONDS, strict=True):
        seconds = shown[column].to_numpy(float)
        pairs = zip(names, seconds, strict=True)
        texts = [f"{name}\n{part}: {units.duration(x)}" for name, x in pairs]
        parts[part] = (colour, seconds, texts)
    return stacked(parts, names, Axis("simulated time of the round (seconds)"))

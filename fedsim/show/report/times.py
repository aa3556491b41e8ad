"""The report's sections of simulated time: the metric over it, who leads when, and one round."""

from html import escape

import pandas as pd

from fedsim import units
from fedsim.network.pricing import SECONDS
from fedsim.results.load import Results
from fedsim.results.schema import clients_of
from fedsim.show.budgets import budgets, leaders
from fedsim.show.curves import TIME
from fedsim.show.report.charts.frame import Drawn
from fedsim.show.report.charts.timeline import MOST, timeline
from fedsim.show.style import higher_is_better

ROUNDS = 3
"""Rounds that are drawn: one of each of so many runs."""

_TIMELINE = (
    "A bar per client of the run's middle round: its download, its training, its upload, and how "
    "long it waits until the round is over."
)


def leading(rounds: pd.DataFrame) -> str:
    """Which method is best until when, in a sentence; of one method nothing is said.

    Args:
        rounds: of runs that had a network, of one task.
    """
    higher = higher_is_better(rounds)
    spans = leaders(budgets(rounds, higher, x=TIME), higher)
    if rounds["label"].nunique() < 2 or not spans:
        return ""
    told = [f"{name} from {units.duration(low)}" for low, _, name in spans]
    over = " Each overtakes the one before it at that time." if len(spans) > 1 else ""
    return f"Best so far on the simulated clock: {', '.join(told)}.{over}"


def timed(rounds: pd.DataFrame) -> pd.DataFrame:
    """The rounds that have simulated seconds."""
    return rounds[rounds[TIME].notna()] if TIME in rounds else rounds.iloc[:0]


def middle_rounds(results: Results) -> dict[str, Drawn]:
    """The middle round of the first runs that had a network, by the run's name."""
    shown: dict[str, Drawn] = {}
    for name, own in timed(results.done_rounds).groupby("run", sort=False):
        folder = results.folders[str(name)]
        if len(shown) == ROUNDS or not (folder / "clients.parquet").exists():
            continue
        number = own["round"].iloc[len(own) // 2]
        clients = clients_of(folder)
        if SECONDS[0] in clients:
            title = f"{name}, round {number}"
            shown[title] = timeline(clients[clients["round"] == number])
    return shown


def caption(results: Results) -> str:
    """What the timelines show, and what they leave out."""
    rounds = timed(results.done_rounds)
    many = rounds["run"].nunique() > ROUNDS
    text = _TIMELINE + (f" The first {ROUNDS} runs." if many else "")
    return text + (f" The {MOST} slowest clients." if (rounds["clients"] > MOST).any() else "")


def sentence(results: Results) -> str:
    """`leading` as a paragraph."""
    text = leading(timed(results.done_rounds))
    return f"<p>{escape(text)}</p>" if text else ""

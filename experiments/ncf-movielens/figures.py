"""The hit rate over rounds and bits, as a table and as a figure."""

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, grids
from experiments.common.scores import rows_of
from fedsim import Results

MARKERS = "sD^v<>P"


def curves(results: Results) -> pd.DataFrame:
    """A row per method and evaluation: bits that a client has sent, hit rate; means over seeds."""
    rounds = results.rounds.assign(
        name=rows_of(results.rounds["run"]),
        share=results.rounds["up_wire_bits"] / results.rounds["clients"],
    )
    rounds["up_bits"] = rounds.groupby("run")["share"].cumsum()
    scored = rounds[rounds["metric"].notna()].rename(columns={"metric": "hit_rate"})
    by = scored.groupby(["name", "iteration"], sort=False)
    return by[["up_bits", "hit_rate"]].mean().reset_index()


def figure(lines: pd.DataFrame, titles: dict[str, str], guess: float) -> Figure:
    """The hit rate over rounds and over a client's bits; without compression in black."""
    drawn = canvas(9, 3.6)
    left, right = drawn.subplots(1, 2, sharey=True)
    place = 0
    for name, title in titles.items():
        mine = lines[lines["name"] == name]
        if len(mine):
            look = {"color": "black", "marker": "o", "markersize": 4, "label": title}
            if name != "dense":
                look |= {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place]}
                place += 1
            left.plot(mine["iteration"], mine["hit_rate"], **look)
            right.plot(mine["up_bits"], mine["hit_rate"], **look)
    for axes in (left, right):
        axes.axhline(guess, color="grey", linestyle="--", linewidth=1, label="popularity")
    grids((left, right))
    left.set(xlabel="rounds (one local iteration each)", ylabel="hit rate at 10")
    right.set(xlabel="bits that a client has sent", xscale="log")
    left.legend(fontsize="small")
    return drawn

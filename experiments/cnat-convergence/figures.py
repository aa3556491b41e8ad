"""A column a figure of the paper, drawn from the curves as they are in ``curves.csv``."""

import pandas as pd
from matplotlib.figure import Figure

from .rows import METHODS, PANELS

STYLES = {
    "none": ("#000000", "-", "o"),
    "cnat": ("#cc79a7", "--", "s"),
    "sparse": ("#d55e00", "-", "o"),
    "sparse-cnat": ("#d55e00", "--", "s"),
    "dsta": ("#0072b2", "-", "o"),
    "dsta-cnat": ("#0072b2", "--", "s"),
    "dnat": ("#009e73", "-.", "^"),
    "dnat-cnat": ("#009e73", ":", "D"),
    "dsta-1": ("#e69f00", "--", "X"),
    "topk": ("#56b4e9", "-.", "v"),
}
"""Colour, line and marker: Okabe and Ito's colours, as fedsim.plot has them."""


def figure(task: str, curves: pd.DataFrame) -> Figure:
    """Training loss, what it differs from no compression's, and held-out accuracy below."""
    panels: dict[str, list[str]] = {}
    for title, names in PANELS.items():
        there = [name for name in names if name in {*curves["name"]}]
        if not {*there} <= {name for own in panels.values() for name in own}:  # one is new
            panels[title] = there
    none = curves[curves["name"] == "none"].set_index("iteration")
    drawn = Figure(figsize=(max(6, 3.9 * len(panels)), 8), layout="constrained")
    columns = drawn.subplots(3, len(panels), sharex=True, squeeze=False).T
    for (title, names), column in zip(panels.items(), columns, strict=True):
        for name in names:
            colour, line, marker = STYLES[name]
            mine = curves[curves["name"] == name].set_index("iteration")
            values = (
                mine["train_loss"],
                mine["train_loss"] - none["train_loss"],
                mine["accuracy_percent"].dropna(),
            )
            for axes, own in zip(column, values, strict=True):
                axes.plot(
                    own.index,
                    own,
                    color=colour,
                    ls=line,
                    lw=1.3,
                    marker=marker,
                    markersize=3.5,
                    markerfacecolor="none",
                    label=METHODS[name].title,
                )
        column[0].set_title(title, fontsize=10)
        column[2].set_xlabel("iterations (a round each)")
        column[2].legend(fontsize=8)
        for axes in column:
            axes.grid(alpha=0.25)
    rows = ("training loss (nats)", "training loss minus that of none", "held-out accuracy (%)")
    for axes, text in zip(columns[0], rows, strict=True):
        axes.set_ylabel(text)
    text = f"{task}: mean over seeds; losses are means of ten rounds"
    drawn.suptitle(text, fontsize=10, x=0.02, ha="left")
    return drawn

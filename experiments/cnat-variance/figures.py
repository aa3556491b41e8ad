"""Figures 1 and 16 to 18, and the real updates, drawn from the tables as they are written."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

FAMILIES = {
    "none": ("#000000", "", "o"),
    "C_nat": ("#000000", "", "X"),
    "S_q": ("#d55e00", "-", "o"),
    "C_nat after S_q": ("#d55e00", "--", "s"),
    "D_sta, p = 2": ("#0072b2", "-", "o"),
    "D_sta, p = inf": ("#56b4e9", "-", "o"),
    "D_nat, p = 2": ("#009e73", "--", "D"),
    "D_nat, p = inf": ("#e69f00", "--", "D"),
    "C_nat after D_sta, p = 2": ("#cc79a7", ":", "v"),
}
"""Colour, line and marker of Figure 1: Okabe and Ito's colours, as fedsim.plot has them."""

_STANDARD = {"color": "#0072b2", "ls": "-", "lw": 1.2, "marker": "o", "markersize": 4}
_NATURAL = {
    "color": "#d55e00",
    "ls": "--",
    "lw": 1.2,
    "marker": "s",
    "markersize": 10,
    "markerfacecolor": "none",
}
"""Natural dithering's open squares stay visible around standard dithering's dots."""


def figure(frame: pd.DataFrame) -> Figure:
    """All four figures of the paper on one page."""
    drawn = Figure(figsize=(11, 8), layout="constrained")
    top, under = drawn.subplots(2, 2, width_ratios=(1, 1))
    axes = top[0]
    for family, rows in frame[frame["figure"].astype(str) == "1"].groupby("family", sort=False):
        colour, line, marker = FAMILIES[family]
        axes.plot(
            rows["omega"] + 1,
            rows["bits_per_entry"],
            color=colour,
            ls=line,
            marker=marker,
            label=family,
            markersize=5,
            markerfacecolor=colour if line in ("", "-") else "none",
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="ω + 1, measured",
        ylabel="bits per coordinate, measured",
        title="Figure 1: d = 10⁶, standard normal entries",
    )
    axes.legend(fontsize=7)
    axes.grid(alpha=0.25)
    mine = frame[frame["figure"] == "16-18"].pivot(index="s", columns="family", values="omega")
    _curves(top[1], mine[["D_nat, s", "D_sta, u = s"]], "Figure 16: u = s")
    small = mine[mine.index <= 8]
    _curves(under[0], small[["D_nat, s", "D_sta, u = 2^(s-1)"]], "Figure 17: u = 2^(s-1)")
    _curves(under[1], mine[["D_nat, s", "D_sta, u = 2^(s-1)"]], "Figure 18: large s")
    under[1].axhline(1 / 8, color="grey", linestyle=":", label="1/8")
    under[1].legend(fontsize=8)
    return drawn


def _curves(axes: Axes, frame: pd.DataFrame, title: str) -> None:
    for family in frame:
        look = _NATURAL if str(family).startswith("D_nat") else _STANDARD
        axes.semilogy(frame.index, frame[family], label=family, **look)
    axes.set(xlabel="s", ylabel="variance: E‖C(x) − x‖² / ‖x‖²", title=title)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.25)


def real_figure(frame: pd.DataFrame) -> Figure:
    """A panel per model: each method's variance on an update, on normal entries, and its bound."""
    tasks = list(dict.fromkeys(frame["task"]))
    drawn = Figure(figsize=(4.4 * len(tasks) + 0.4, 3.6), layout="constrained")
    panels = drawn.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
    shown = (
        ("omega", "an update", {"color": "#0072b2", "marker": "o", "markersize": 6}),
        (
            "omega_normal",
            "normal entries",
            {"color": "#d55e00", "marker": "s", "markersize": 11, "markerfacecolor": "none"},
        ),
        ("omega_bound", "bound", {"color": "#000000", "marker": "_", "markersize": 18}),
    )
    for axes, task in zip(panels, tasks, strict=True):
        mine = frame[frame["task"] == task]
        for column, label, look in shown:
            axes.plot(range(len(mine)), mine[column], ls="", label=label, **look)
        labels = [
            f"{method}\n{bits:.0f} bits"
            for method, bits in zip(mine["method"], mine["bits_per_entry"], strict=True)
        ]
        axes.set_xticks(range(len(mine)), labels, fontsize=8)
        axes.set(yscale="log", title=f"{task}, {mine['entries'].iloc[0]:,} entries")
        axes.set_xlim(-0.5, len(mine) - 0.5)
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("variance: E‖C(x) − x‖² / ‖x‖²")
    panels[0].legend(fontsize=8, loc="upper left")
    return drawn

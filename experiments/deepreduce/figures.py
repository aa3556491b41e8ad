"""The figures: drawn from the table of methods and the learning curves, whatever rows are there."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, grids, score_label
from fedsim.show.plot import plain_ticks

from .rows import DENSENET, POLICIES, SPARSIFIERS

VOLUME = "volume (% of dense float32)"
_PARTS = {"index": COLOURS[0], "value": COLOURS[5], "side": COLOURS[3], "header": "grey"}
_COLOURS = {"Top-r": COLOURS[0], "Random-r": COLOURS[1]}


def _colour(name: str, place: int) -> str:
    """Black for no compression, which is the first of its figures."""
    return "black" if name == "dense" else COLOURS[(place - 1) % len(COLOURS)]


def _of(frame: pd.DataFrame, number: int) -> pd.DataFrame:
    """The rows that figure ``number`` of the paper shows."""
    return frame[[str(number) in shown.split() for shown in frame["figures"]]]


def rates(frame: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """Figure 6: score and volume against the rate of false positives, a column a policy."""
    drawn = canvas(10, 6)
    axes = drawn.subplots(2, len(POLICIES), sharex=True, sharey="row")
    for column, policy in enumerate(POLICIES):
        upper, lower = axes[:, column]
        upper.set_title(f"BF-{policy.upper()}", fontsize=10)
        for name in ("topr", "randr"):
            title = SPARSIFIERS[name][0]
            mine = frame[(frame["policy"] == policy) & (frame["sparsifier"] == title)]
            mine = mine.sort_values("eps")
            look = {"color": _COLOURS[title], "marker": "o", "label": title}
            upper.plot(mine["eps"], mine["score"], **look)
            lower.plot(mine["eps"], mine["wire_percent"], **look)
            lower.plot(mine["eps"], mine["predicted_percent"], "kx", markersize=7)
            _plain((upper, lower), frame[frame["name"] == name], f"{title} alone", _COLOURS[title])
        lower.plot([], [], "kx", label="formulas")
        _plain((upper,), frame[frame["name"] == "dense"], "dense", "black")
        lower.set(xscale="log", yscale="log", xlabel="rate of false positives")
        plain_ticks(lower.yaxis)
        grids((upper, lower))
    axes[0, 0].set_ylabel(score_label(frame))
    axes[1, 0].set_ylabel(VOLUME)
    (crosses,) = [line for line in axes[1, 2].lines if line.get_label() == "formulas"]
    drawn.legend(
        handles=[*axes[0, 2].get_legend_handles_labels()[0], crosses],
        loc="outside lower center",
        ncols=6,
        frameon=False,
        fontsize=9,
    )
    return drawn


def _plain(axes: tuple[Axes, ...], row: pd.DataFrame, label: str, colour: str) -> None:
    """Dashed lines at a method without a rate, if it is there."""
    for panel, value in zip(axes, ("score", "wire_percent"), strict=False):
        for level in row[value]:
            panel.axhline(level, color=colour, linestyle="--", linewidth=1, label=label)


def convergence(frame: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """Figures 7 and 8: score over iterations, as there, and over bits."""
    drawn = canvas(12, 7)
    for (left, right), number in zip(drawn.subplots(2, 2, sharey="row"), (7, 8), strict=True):
        for i, row in enumerate(_of(frame, number).to_dict("records")):
            mine = curves[curves["name"] == row["name"]]
            look = {"label": row["title"], "linewidth": 1.4, "marker": "osD^vP"[i % 6]}
            look |= {"markersize": 3.5, "color": _colour(row["name"], i)}
            left.plot(mine["iteration"], mine["score"], **look)
            right.plot(mine["up_bits"], mine["score"], **look)
        left.set(xlabel="local iterations", ylabel=score_label(frame), title=f"Figure {number}")
        right.set(xlabel="bits that a client has sent", xscale="log")
        right.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=9)
        grids((left, right))
    return drawn


def against_volume(frame: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """Figures 15 and 9: score over volume, of the policies and of stand-alone compressors."""
    numbers = [number for number in (15, 9) if len(_of(frame, number)) > 1]
    drawn = canvas(5 * len(numbers), 4.2)
    panels = drawn.subplots(1, len(numbers), squeeze=False)[0]
    for axes, number in zip(panels, numbers, strict=True):
        for i, row in enumerate(_of(frame, number).to_dict("records")):
            axes.plot(
                row["wire_percent"],
                row["score"],
                "osD^vP"[i % 6],
                markersize=8,
                color=_colour(row["name"], i),
                label=row["title"],
            )
        axes.set(xscale="log", xlabel=VOLUME, ylabel=score_label(frame), title=f"Figure {number}")
        plain_ticks(axes.xaxis)
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8)
    return drawn


def parts(frame: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """Figure 10: index and value volume of each combination; if measured, a message's time."""
    mine, timed = _of(frame, 10), "encode_ms" in frame
    drawn = canvas(11 if timed else 6.5, 4.8)
    panels = drawn.subplots(1, 1 + timed, sharey=True, squeeze=False)[0]
    start = 0 * mine["wire_percent"]
    for part, colour in _PARTS.items():
        size = mine[f"{part}_percent"]
        panels[0].barh(mine["title"], size, left=start, label=part, color=colour)
        start = start + size
    panels[0].invert_yaxis()
    panels[0].set(xlabel=VOLUME, title="Figure 10a: volume")
    if timed:
        for part, marker, colour in (("encode", "o", COLOURS[0]), ("decode", "s", COLOURS[1])):
            panels[1].plot(mine[f"{part}_ms"], mine["title"], marker, color=colour, label=part)
        panels[1].set(xscale="log", xlabel="milliseconds per update", title="Figure 10b: time")
        plain_ticks(panels[1].xaxis)
    grids(panels)
    for axes in panels:
        axes.legend(fontsize=8)
    return drawn


FIGURES = {
    "fig6": rates,
    "fig7-8": convergence,
    "fig9-15": against_volume,
    "fig10": parts,
}


def has_rows(name: str, frame: pd.DataFrame) -> bool:
    """Whether the figure has what it is about: rates in 6, stand-alone compressors in 9.

    Of DenseNet40 there is Figure 15 alone.
    """
    if name == "fig6":
        return frame["eps"].nunique() > 1
    names = {*frame["name"]}
    if name == "fig9-15":
        return not names.isdisjoint({"3lc", "sketchml", *DENSENET[1:]})
    return not names <= {*DENSENET}

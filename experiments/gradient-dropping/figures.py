"""The figures, drawn from the table of runs and their curves, whatever rows are there."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common.figures import canvas

from .rows import ROWS

_LOOKS = {
    "dense": ("#000000", "-", "o"),
    "drop-90": ("#0072b2", "--", "s"),
    "drop-99": ("#d55e00", "-", "^"),
    "drop-99.9": ("#009e73", "-.", "D"),
    "local-99": ("#56b4e9", "--", "v"),
    "plain-dense": ("#000000", "-", "o"),
    "plain-global-99": ("#d55e00", "-", "^"),
    "plain-local-99": ("#56b4e9", "--", "v"),
    "min-1": ("#0072b2", "-", "s"),
    "avg-1": ("#009e73", "-", "D"),
    "min-2": ("#0072b2", "--", "P"),
    "avg-2": ("#009e73", "--", "X"),
    "column-1": ("#cc79a7", ":", "*"),
}
"""Colour, line and marker: Okabe and Ito's colours, as fedsim.plot has them."""

_TITLES = {
    ("fig4", "drop-99"): "drop 99 %, global",
    ("fig4", "plain-global-99"): "drop 99 %, global",
    ("fig8", "drop-99"): "not quantized (32 bits)",
}
_BATCHES = "batches of all clients"
_LOSS = (0.0, 0.6)  # the paper's axis


def fig2(curves: pd.DataFrame) -> Figure:
    """Training loss and accuracy over batches, a line a drop ratio."""
    drawn, (left, right) = _drawn(2)
    _lines(left, curves, "fig2", "batches", "train_loss")
    _lines(right, curves, "fig2", "batches", "accuracy_percent")
    left.set(xlabel=_BATCHES, ylabel="training loss (nats)", ylim=_LOSS)
    right.set(xlabel=_BATCHES, ylabel="accuracy (%)")
    _zoom(right, curves, "fig2")
    right.legend(fontsize="small", loc="lower right")
    return drawn


def fig4(curves: pd.DataFrame) -> Figure:
    """Training loss over batches, local and global thresholds, without layer norm and with it.

    Of several seeds: means, with a band of one standard deviation.
    """
    drawn, (left, right) = _drawn(2)
    for axes, layer in ((left, False), (right, True)):
        _lines(axes, curves, "fig4", "batches", "train_loss", layer)
        axes.set(xlabel=_BATCHES, ylabel="training loss (nats)", ylim=_LOSS)
        axes.set_title("with layer norm" if layer else "without layer norm", fontsize=10)
        axes.legend(fontsize="small")
    return drawn


def fig6(curves: pd.DataFrame) -> Figure:
    """Accuracy over rounds, over the seconds measured, and over those with a link added."""
    drawn, panels = _drawn(3)
    labels = {
        "round": "rounds",
        "seconds": "seconds measured\n(four nodes' work on one core, no link)",
        "link_seconds": "seconds computed\n(the work on four nodes, 1 Gbit/s each)",
    }
    for axes, (x, text) in zip(panels, labels.items(), strict=True):
        _lines(axes, curves, "fig6", x, "accuracy_percent")
        axes.set(xlabel=text, ylabel="accuracy (%)")
        _zoom(axes, curves, "fig6")
    panels[0].legend(fontsize="small", loc="lower right")
    return drawn


def fig8(curves: pd.DataFrame) -> Figure:
    """Training loss over batches, a line per quantizer; all of it, and the second half nearer."""
    drawn, (left, right) = _drawn(2)
    for axes in (left, right):
        _lines(axes, curves, "fig8", "batches", "train_loss")
        axes.set(xlabel=_BATCHES, ylabel="training loss (nats)", ylim=_LOSS)
    left.legend(fontsize="small")
    mine = curves[curves["name"].map(lambda name: "fig8" in ROWS[name].figures)]
    late = mine[mine["batches"] >= mine["batches"].max() / 2]
    ends = late["batches"].min(), late["batches"].max()
    right.set(xlim=ends, ylim=(0, 1.1 * late["train_loss"].max()))
    right.set_title("the second half", fontsize=10)
    return drawn


DRAWN = {"fig2": fig2, "fig4": fig4, "fig6": fig6, "fig8": fig8}


def _drawn(panels: int) -> tuple[Figure, list[Axes]]:
    drawn = canvas(4.4 * panels, 3.6)
    return drawn, list(drawn.subplots(1, panels))


def _lines(
    axes: Axes, curves: pd.DataFrame, figure: str, x: str, y: str, layer: bool | None = None
) -> None:
    """The runs of a figure; ``layer``: only those with, or only those without, layer norm."""
    for name, row in ROWS.items():
        mine = curves[(curves["name"] == name) & curves[y].notna()]
        if figure not in row.figures or mine.empty or layer not in (None, row.layer):
            continue
        colour, line, marker = _LOOKS[name]
        label = _TITLES.get((figure, name), row.title)
        if mine["seed"].nunique() > 1:  # the mean, with a band of one deviation either way
            seeds = mine.groupby(x)[y].agg(["mean", "std"]).reset_index()
            low, high = seeds["mean"] - seeds["std"], seeds["mean"] + seeds["std"]
            axes.fill_between(seeds[x], low, high, color=colour, alpha=0.18, linewidth=0)
            mine = seeds.rename(columns={"mean": y})
        axes.plot(
            mine[x],
            mine[y],
            color=colour,
            linestyle=line,
            marker=marker,
            markersize=4,
            markerfacecolor="none",
            linewidth=1.3,
            label=label,
        )
    axes.grid(alpha=0.25)


def _zoom(axes: Axes, curves: pd.DataFrame, figure: str) -> None:
    """Leaves out the part of the axis below the worst first evaluation."""
    mine = curves[curves["name"].map(lambda name: figure in ROWS[name].figures)]
    scores = mine["accuracy_percent"].dropna()
    axes.set_ylim(max(0.0, scores.min() - 1), min(100.0, scores.max() + 1))

"""The metric against upstream bits: the front of final results, and the best within a budget."""

from math import nan

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsim import units
from fedsim.show.budgets import Budget, budgets, leaders
from fedsim.show.curves import Bits, Series, bits_column, front, pareto_points
from fedsim.show.inputs import check_frame
from fedsim.show.plot.canvas import (
    GREY,
    LINES,
    drawing,
    finish,
    logarithmic,
    marker,
    plain,
    strip,
    title,
    within,
)
from fedsim.show.style import (
    LABELS,
    Look,
    cell_label,
    higher_is_better,
    label,
    looks,
    method_looks,
    metric_name,
)


def pareto(runs: pd.DataFrame, bits: Bits = "wire") -> Figure:
    """Final metric over the upstream bits of a client of every round: a point per cell, the front.

    The front joins the cells that no other beats in both, fewer bits and a better metric. Seeds
    are averaged; bars show their range. Failed runs are left out. Of several methods, colour and
    marker tell the method, paler marks send fewer entries, and beside the front's points stand
    n and p. Where a single point beats all others there is no front to draw.

    Args:
        runs: the frame of `fedsim.load(...).runs`, or some of its rows.
        bits: which bits, as for `curves`: "wire", or "content" as papers count them.

    Raises:
        UsageError: no run is done; unknown `bits`; `runs` is not such a frame.
    """
    check_frame(runs, "runs", "pareto()")
    points = pareto_points(runs, bits)
    figure = drawing(7.2, 4.4)
    axes = figure.add_subplot()
    styles = looks([point.cell for point in points])
    best = front(points, higher := higher_is_better(runs))
    sent = [float(point.x[0]) for point in best]
    heights = [float(point.y[0]) for point in best]
    if len(best) > 1:
        axes.step(sent, heights, where="post", color=GREY, lw=1, label="front", zorder=1)
    named: set[str] = set()
    for point in points:
        _point(axes, point, styles[point.cell], known=point.cell.method in named)
        named |= {point.cell.method} - {""}
        if point.cell.method and point in best:  # the others' notes would cover each other
            _note(axes, point, higher)
    if len({(cell.method, cell.gradient) for cell in styles}) > len(named) > 0:
        _pale(axes)
    axes.margins(x=0.18, y=0.1)  # room for the notes
    logarithmic(axes)
    finish(axes, LABELS[bits_column(bits)], label(metric_name(runs)))
    within(axes, metric_name(runs))
    title(figure, runs, ["on the front: n, p"] if named else [])
    return figure


def budget(rounds: pd.DataFrame, name: str | None = None, bits: Bits = "wire") -> Figure:
    """The metric that each method has within a budget of upstream bits, by its best cell.

    For B bits on the axis, a step is the best cell (n, p) of the method, each with its last
    evaluation when a client of every round had sent at most B bits, the mean over its seeds; below,
    which method is best there. A method's steps end where its longest run does. The bar below is
    blank where the best had ended with fewer bits and no other is better.

    Args:
        rounds: the frame of `fedsim.load(...).rounds`, or some of its rows. Whether a higher
            metric is better, it says itself.
        name: what to call the metric; default: the runs' own name of it.
        bits: which bits, as for `curves`: "wire", or "content" as papers count them.

    Raises:
        UsageError: unknown `bits`; nothing to draw; `rounds` is not such a frame.

    Example:
        results = fedsim.load("results/sbc", "results/gradient_dropping")
        budget(results.rounds).savefig("budget.pdf")
    """
    check_frame(rounds, "rounds", "budget()")
    higher = higher_is_better(rounds)
    methods = budgets(rounds, higher, bits)
    styles = method_looks({best.method: best.dense for best in methods})
    figure = drawing(7.2, 4.6)
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(14, 1))
    for best in methods:
        _steps(axes, best, styles[best.method])
    logarithmic(axes)
    finish(axes, "", label(name or metric_name(rounds)))
    within(axes, name or metric_name(rounds))
    strip(below, leaders(methods, higher), styles, "best")
    below.set_xlabel(LABELS[bits_column(bits)])
    title(figure, rounds)
    return figure


def _steps(axes: Axes, best: Budget, look: Look) -> None:
    """The steps of a method."""
    axes.step(
        [*best.bits, best.end], [*best.metric, best.metric[-1]], where="post", color=look.colour,
        lw=1.8, marker=marker(look), markevery=range(len(best.bits)), markersize=4,
        linestyle=LINES[0], label=plain(best.method),
    )  # fmt: skip


def _point(axes: Axes, point: Series, look: Look, known: bool) -> None:
    cell = point.cell
    text = cell.method or cell_label(cell)
    axes.errorbar(
        point.x, point.y, [point.y - point.low, point.high - point.y],
        label="_" if known else plain(text), color=look.colour, marker=marker(look),
        markersize=8, markeredgecolor="black", markeredgewidth=0.6, linestyle="", zorder=2,
    )  # fmt: skip


def _pale(axes: Axes) -> None:
    """An entry of the legend; of the points' own kind, so that it stands after theirs."""
    axes.errorbar(
        [nan], [nan], [nan], label="paler: smaller p", color="#cccccc", marker="o",
        markersize=8, markeredgecolor=GREY, markeredgewidth=0.6, linestyle="",
    )  # fmt: skip


def _note(axes: Axes, point: Series, higher: bool) -> None:
    """n and p on the side of the front where there is nothing: fewer bits, a better metric."""
    note = f"{point.cell.temporal}, {units.plain(point.cell.gradient)}"
    at = (float(point.x[0]), float(point.y[0]))
    axes.annotate(
        note, at, (-5, 5 if higher else -5), textcoords="offset points", fontsize=8, ha="right",
        va="bottom" if higher else "top",
    )  # fmt: skip

"""Figures on a clock: the metric over simulated time, and the time to a target over bandwidth."""

import numpy as np
import pandas as pd
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from fedsim import units
from fedsim.show.plot.canvas import (
    GREY,
    LINES,
    drawing,
    finish,
    marker,
    plain,
    strip,
    title,
    within,
)
from fedsim.show.style import (
    CellKey,
    cell_label,
    higher_is_better,
    label,
    looks,
    method_looks,
    metric_name,
)
from fedsim.show.times import CELL, Bandwidths

_SHOWN = 12  # lines that a reader can still tell apart
_TIMES = (
    0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 86_400 * 2, 86_400 * 20, 86_400 * 200,
    86_400 * 2000,
)  # fmt: skip


def over_time(priced: pd.DataFrame, network: str, target: float | None = None) -> Figure:
    """The metric over simulated time, a line per cell; seeds are averaged round by round.

    Of more than 12 cells those 12 are drawn that come to the target first, or that end best.

    Args:
        priced: what `fedsim.show.times.priced` gave, of one task.
        network: what to call the network.
        target: a metric at which a line is drawn.
    """
    name, higher = metric_name(priced), higher_is_better(priced)
    scored = priced[priced["metric"].notna()].groupby([*CELL, "round"])
    points = scored[["sim_end_seconds", "metric"]].mean().reset_index()
    dense = set(priced.loc[priced["dense"], "label"])
    groups = {CellKey(int(n), float(p), method=str(method), dense=method in dense): part
              for (method, n, p), part in points.groupby(CELL)}  # fmt: skip
    first = sorted(groups, key=lambda cell: _rank(groups[cell], target, higher))[:_SHOWN]
    styles = looks(list(groups))
    figure = drawing(8.6, 4.4)
    axes = figure.add_subplot()
    for cell in (cell for cell in groups if cell in first):
        look = styles[cell]
        axes.plot(
            groups[cell]["sim_end_seconds"], groups[cell]["metric"], color=look.colour, lw=1.6,
            linestyle=LINES[look.place % len(LINES)], label=plain(cell_label(cell)),
        )  # fmt: skip
    if target is not None:
        axes.axhline(target, color=GREY, lw=1, linestyle=":", label=f"target {target:g}")
    axes.set_xscale("log")
    _times(axes.xaxis)
    finish(axes, f"simulated time on {plain(network)}", label(name))
    within(axes, name)
    title(figure, priced, [f"the {_SHOWN} fastest of {len(groups)} cells"]
          if len(groups) > _SHOWN else [])  # fmt: skip
    return figure


def over_bandwidths(times: Bandwidths, rounds: pd.DataFrame, target: float) -> Figure:
    """The simulated time to a target over the bandwidth of every client, a line per method.

    A method's line is that of its fastest cell (n, p) at each bandwidth; the bar below says which
    method is fastest where.

    Args:
        times: what `fedsim.show.times.over_bandwidths` gave.
        rounds: `results.rounds`, for the names of task and metric.
        target: the metric.
    """
    lines = times.methods()
    dense = set(rounds.loc[rounds["dense"], "label"])
    styles = method_looks({name: name in dense for name in lines})
    figure = drawing(7.2, 4.8)
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(14, 1))
    for method, seconds in lines.items():
        look = styles[method]
        axes.plot(times.rates, seconds, color=look.colour, marker=marker(look), markevery=8,
                  markersize=4, lw=1.8, label=plain(method))  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    _times(axes.yaxis)
    _rates(axes.xaxis, times.rates[0], times.rates[-1])
    finish(axes, "", f"time to {label(metric_name(rounds))} {target:g}")
    strip(below, times.fastest(), styles, "fastest")
    below.set_xlabel("upload and download rate of every client")
    title(figure, rounds)
    return figure


def _rank(points: pd.DataFrame, target: float | None, higher: bool) -> tuple[float, float]:
    sign = 1 if higher else -1
    end = -sign * float(points["metric"].iloc[-1])
    if target is None:
        return end, 0.0
    reached = points.loc[sign * points["metric"] >= sign * target, "sim_end_seconds"]
    return float(reached.min()) if len(reached) else float("inf"), end


def _times(axis: Axis) -> None:
    """Round times along a logarithmic axis."""
    axis.set_major_locator(FixedLocator(_TIMES))
    axis.set_major_formatter(FuncFormatter(lambda seconds, _: _round_time(seconds)))
    axis.set_minor_locator(NullLocator())


def _round_time(seconds: float) -> str:
    """A round time without the digits that are 0: `10 min`, `100 days`."""
    number, unit = units.duration(seconds * 1.000001).split()
    return f"{float(number):g} {unit}"


def _rates(axis: Axis, low: float, high: float) -> None:
    """Every second power of ten along a logarithmic axis: more would overlap."""
    powers = 10.0 ** np.arange(np.ceil(np.log10(low)), np.log10(high) + 0.01, 2)
    axis.set_major_locator(FixedLocator(powers.tolist()))
    axis.set_major_formatter(FuncFormatter(lambda rate, _: f"{units.round_bits(rate)}/s"))
    axis.set_minor_locator(NullLocator())

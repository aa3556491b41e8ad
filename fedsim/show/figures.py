"""The content of each figure of results: lines, marks, axes and words."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedsim.ground import units
from fedsim.results.aliases import column_of
from fedsim.results.intervals import half_of, wilson
from fedsim.results.labels import delay_symbol
from fedsim.show.budgets import budgets, leaders
from fedsim.show.chart import GREY, Axis, Chart, Marks, Strip
from fedsim.show.curves import (
    ALONG,
    TIME,
    Bits,
    Series,
    bits_column,
    both_ways,
    curve_lines,
    front,
    pareto_points,
)
from fedsim.show.headline import samples_of
from fedsim.show.inputs import check_frame
from fedsim.show.planes import method_text
from fedsim.show.style import (
    LABELS,
    CellKey,
    Look,
    cell_label,
    higher_is_better,
    label,
    looks,
    method_looks,
    metric_name,
)

if TYPE_CHECKING:  # torch comes with the controllers
    from fedsim.show.times import Bandwidths

SHOWN = 12
"""Lines over time that a reader can still tell apart."""

_LINES = (
    "A line per cell, the mean over its seeds, whose range is the band, as far as all seeds were "
    "run; "
)
_BUDGET = (
    "The best cell of a method when a client has sent so many bits, each with its last evaluation "
    "by then, the mean over its seeds. A line ends where the method's longest run does. The bar "
    "above names the method that is best there; it is blank where the best had ended with fewer "
    "bits and no other is better."
)
_POINTS = (
    "A mark per cell, with its 95 % interval as a bar: Student's t over its seeds, or that of "
    "the cells' median deviation where that is longer; of one seed Wilson's, of the test samples "
    "of an accuracy. The line joins those that no other beats in both bits and metric."
)
_FEWER = "hollow: fewer seeds"
_PALER = " Paler ones send fewer entries."


def curves_chart(
    rounds: pd.DataFrame,
    x: str = "iteration",
    y: str = "metric",
    name: str | None = None,
    bits: Bits = "wire",
) -> Chart:
    """Learning curves; arguments and errors as of `fedsim.plot.curves`, and x may be `TIME`."""
    check_frame(rounds, "rounds", "curves()")
    x, y = column_of(x, ALONG), column_of(y, rounds.columns, {*rounds.get("metric_name", ())})
    lines = curve_lines(rounds, x, y, bits)
    shown = name or (metric_name(rounds) if y == "metric" else y)
    axis = Axis(
        LABELS[x if x != "up_bits" else bits_column(bits)], "bits" if x == "up_bits" else "plain"
    )
    styles = looks([line.cell for line in lines])
    symbol = next((cell.symbol for cell in styles), "n")
    tells = (
        "colour and marker tell the method, line tells"
        if several_of(styles)
        else ("colour tells p, line and marker tell")
    )
    return Chart(
        title=titled(rounds),
        x=axis,
        y=Axis(label(shown), metric=shown),
        marks=_lines(lines, styles, x, shown),
        caption=f"{_LINES}{tells} {symbol}.{paler(styles)}",
    )


def _lines(lines: list[Series], styles: dict[CellKey, Look], x: str, name: str) -> list[Marks]:
    named, reading = legend(styles, lines=True)
    texts = {"iteration": lambda at: f"iteration {at:.0f}", TIME: units.duration}
    text_of = texts.get(x, units.bits)
    marks = [
        Marks(
            x=line.x,
            y=line.y,
            look=styles[line.cell],
            name=named[line.cell],
            texts=_texts(line.cell, line.x, line.y, text_of, name),
            low=line.low,
            high=line.high,
        )
        for line in lines
    ]
    return marks + reading


def _texts(
    cell: CellKey, x: np.ndarray, y: np.ndarray, text_of: Callable[[float], str], name: str
) -> list[str]:
    return [
        f"{cell_label(cell)}\n{text_of(at)}\n{name} {units.score(score, name)}"
        for at, score in zip(x, y, strict=True)
    ]


def budget_chart(
    rounds: pd.DataFrame, name: str | None = None, bits: Bits = "wire", budget_of: str = "up"
) -> Chart:
    """The best within a budget; arguments and errors as of `fedsim.plot.budget`."""
    check_frame(rounds, "rounds", "budget()")
    shown, higher = name or metric_name(rounds), higher_is_better(rounds)
    methods = budgets(rounds, higher, bits, budget_of=budget_of)
    styles = method_looks({best.method: best.dense for best in methods})
    marks = []
    for best in methods:
        cells = [cell._replace(method=best.method, dense=best.dense) for cell in best.cells]
        texts = [
            f"{cell_label(cell)}\nfrom {units.bits(sent)} on\n{shown} {units.score(score, shown)}"
            for cell, sent, score in zip(cells, best.bits, best.metric, strict=True)
        ]
        marks.append(
            Marks(
                x=[*best.bits, best.end],
                y=[*best.metric, best.metric[-1]],
                kind="steps",
                look=styles[best.method],
                name=best.method,
                texts=[*texts, texts[-1]],
            )
        )
    return Chart(
        title=titled(rounds),
        caption=_BUDGET,
        marks=marks,
        y=Axis(label(shown), metric=shown),
        x=_spent(bits, budget_of),
        strip=Strip("best", leaders(methods, higher), styles),
    )


def _spent(bits: Bits, budget_of: str) -> Axis:
    column = bits_column(bits)
    return Axis(LABELS[f"total_{bits}" if both_ways(budget_of) else column], "bits")


def pareto_chart(runs: pd.DataFrame, bits: Bits = "wire", budget_of: str = "up") -> Chart:
    """Final metric over bits; arguments and errors as of `fedsim.plot.pareto`."""
    check_frame(runs, "runs", "pareto()")
    name, higher = metric_name(runs), higher_is_better(runs)
    points = intervals(pareto_points(runs, bits, budget_of), samples_of(runs), name)
    styles, best = looks([*points["cell"]]), front(points, higher)
    named, reading = legend(styles, lines=False)
    symbol, most_seeds = delay_symbol(runs), points["seeds"].max()
    if (points["seeds"] < most_seeds).any():
        look = Look(GREY, 0, 0)
        reading.append(Marks(look=look, kind="points", size=8, hollow=True, name=_FEWER))
    joined = Marks(x=[*best["x"]], y=[*best["y"]], kind="steps", name="front", width=1)
    marks = [replace(joined, direct_label=False)] if len(best) > 1 else []
    notes = []
    for place, point in points.iterrows():
        cell, fewer = point["cell"], point["seeds"] < most_seeds
        x, y, low, high = (np.array([point[end]]) for end in ("x", "y", "low", "high"))
        (text,) = _texts(cell, x, y, units.bits, name)
        marks.append(
            Marks(
                x=x,
                y=y,
                low=None if np.isnan(low) else low,
                high=None if np.isnan(high) else high,
                kind="points",
                size=8,
                look=styles[cell],
                name=named[cell],
                hollow=bool(fewer),
                texts=[f"{text}\n{point['seeds']} of {most_seeds} seeds" if fewer else text],
            )
        )
        if cell.method and place in best.index:  # the others' notes would cover each other
            note = f"{cell.temporal}, {units.plain(cell.gradient)}"
            notes.append((float(point["x"]), float(point["y"]), note))
    return Chart(
        title=titled(runs) + (f"\non the front: {symbol}, p" if several_of(styles) else ""),
        x=_spent(bits, budget_of),
        y=Axis(label(name), metric=name),
        marks=marks + reading,
        notes=notes,
        higher=higher,
        caption=_POINTS + paler(styles),
    )


def intervals(points: pd.DataFrame, samples: int | None, name: str) -> pd.DataFrame:
    """The points with `low` and `high`, the ends of each cell's interval of 95 %; NaN where nothing
    is known of chance.

    Of several seeds it is the longer of two: Student's by the cell's own seeds, and that by the
    median deviation of all cells with all of their degrees of freedom.

    Args:
        points: what `pareto_points` gave.
        samples: the test samples of a share such as accuracy; None: not known, or not a share.
        name: what the metric is called: a fraction's interval ends at 0 and 1.
    """
    several = points[points["seeds"] > 1]
    finite = several.loc[np.isfinite(several["deviation"]), "deviation"]
    shared, freedom = finite.median() if len(finite) else 0.0, int((several["seeds"] - 1).sum())
    is_fraction = name in units.FRACTIONS and points["y"].between(0, 1).all()
    lowest, highest = (0.0, 1.0) if is_fraction else (-inf, inf)
    ends = []
    for y, deviation, seeds in points[["y", "deviation", "seeds"]].itertuples(index=False):
        if seeds > 1:
            by_seeds = half_of(deviation, seeds, int(seeds) - 1)
            half = max(half_of(shared, seeds, freedom), by_seeds)
            ends.append((max(y - half, lowest), min(y + half, highest)))
        else:
            ends.append((nan, nan) if samples is None else wilson(y, samples))
    return points.assign(low=[low for low, _ in ends], high=[high for _, high in ends])


def over_time(priced: pd.DataFrame, network: str, target: float | None = None) -> Chart:
    """The metric over simulated time, a line per cell; seeds are averaged round by round.

    Of more than 12 cells those 12 are drawn that come to the target first, or that end best.
    """
    name, higher = metric_name(priced), higher_is_better(priced)
    lines = curve_lines(priced, TIME, "metric")
    styles = looks([line.cell for line in lines])
    first = {id(x) for x in sorted(lines, key=lambda line: rank(line, target, higher))[:SHOWN]}
    shown = [line for line in lines if id(line) in first]
    marks = _lines(shown, {line.cell: styles[line.cell] for line in shown}, TIME, name)
    if target is not None:
        marks.append(Marks(look=Look(GREY, 3, None), name=f"target {target:g}", width=1))
    many = f"\nthe {SHOWN} fastest of {len(lines)} cells" if len(lines) > SHOWN else ""
    return Chart(
        title=titled(priced) + many,
        x=Axis(f"simulated time on {network}", "seconds"),
        y=Axis(label(name), metric=name),
        marks=marks,
        at_y=target,
    )


def rank(line: Series, target: float | None, higher: bool) -> tuple[float, float]:
    """The sort key of a cell over time: when it reaches the target, then its last value."""
    sign = 1 if higher else -1
    end = -sign * float(line.y[-1])
    if target is None:
        return end, 0.0
    reached = line.x[sign * line.y >= sign * target]
    return float(reached.min()) if len(reached) else inf, end


def bandwidths_chart(times: "Bandwidths", rounds: pd.DataFrame, target: float) -> Chart:
    """The time to a target over bandwidths; arguments as of `fedsim.plot.over_bandwidths`."""
    lines, dense = times.methods(), set(rounds.loc[rounds["dense"], "label"])
    styles = method_looks({name: name in dense for name in lines})
    return Chart(
        title=titled(rounds),
        x=Axis("upload and download rate of every client", "rates"),
        y=Axis(f"time to {label(metric_name(rounds))} {target:g}", "seconds"),
        marks=[
            Marks(x=times.rates, y=seconds, look=styles[method], name=method)
            for method, seconds in lines.items()
        ],
        strip=Strip("fastest", times.fastest(), styles),
    )


def titled(frame: pd.DataFrame) -> str:
    """Task and method."""
    return f"{', '.join(frame['task'].unique())}: {method_text(frame)}"


def several_of(cells: Collection[CellKey]) -> bool:
    """Whether the cells are of several methods."""
    return any(cell.method for cell in cells)


def paler(cells: Collection[CellKey]) -> str:
    """The caption's sentence on paler lines if some method's cells differ in p; else empty."""
    differ = {(cell.method, cell.gradient) for cell in cells}
    return _PALER if several_of(cells) and len(differ) > len({c.method for c in cells}) else ""


def legend(styles: Mapping[CellKey, Look], lines: bool) -> tuple[dict[CellKey, str], list[Marks]]:
    """The names of cells in a legend, and entries that tell how the cells of a method differ.

    Of one method each cell has an entry; of several each method has one, at its first cell.

    Args:
        styles: how the cells look.
        lines: whether they are lines, whose style tells n.
    """
    if not several_of(styles):
        return {cell: cell_label(cell) for cell in styles}, []
    first = {cell.method: cell for cell in reversed(list(styles))}
    named = {cell: cell.method if first[cell.method] == cell else "" for cell in styles}
    places = {cell.temporal: look.place for cell, look in styles.items()}
    symbol = next((cell.symbol for cell in styles), "n")
    reading = [
        Marks(look=Look(GREY, place, None), name=f"{symbol} = {n}")
        for n, place in sorted(places.items())
    ]
    reading = reading if lines and len(reading) > 1 else []
    if paler(styles):
        fractions = {
            tuple(sorted({c.gradient for c in styles if c.method == name}, reverse=True))
            for name in first
        }
        several = [values for values in fractions if len(values) > 1]
        text = f" ({', '.join(map(units.plain, several[0]))})" if len(several) == 1 else ""
        look = Look("#cccccc", 0, 0)
        reading.append(Marks(look=look, kind="points", size=8, name=f"paler: smaller p{text}"))
    return named, reading

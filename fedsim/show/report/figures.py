"""The report's sections of figures: headings, charts and what they show."""

from collections.abc import Mapping
from html import escape

import pandas as pd

from fedsim.results.labels import methods_of, of_method, several
from fedsim.results.load import Results
from fedsim.show.curves import TIME, pareto_points
from fedsim.show.planes import one_celled, planes
from fedsim.show.report import charts
from fedsim.show.report.answers import tables
from fedsim.show.report.charts.frame import Chart, as_json
from fedsim.show.report.times import caption, middle_rounds, sentence, timed
from fedsim.show.style import metric_name

_PLANE = (
    "Rows: local iterations per round. Columns: fraction of entries sent. Of several "
    "seeds: mean ± sample standard deviation (number of seeds)."
)
_JOINED = " Short lines join cells of equal total sparsity p/n."
_LINES = (
    "A line per cell, the mean over its seeds, whose range is the band; colour tells p, line and "
    "marker tell n."
)
_LINES_OF_METHODS = (
    "A line per cell, the mean over its seeds, whose range is the band; colour and marker tell the "
    "method, line tells n."
)
_BUDGET = (
    "The best cell of a method when a client has sent so many bits, each with its last evaluation "
    "by then, the mean over its seeds. A line ends where the method's longest run does. The bar "
    "below names the method that is best there; it is blank where the best had ended with fewer "
    "bits and no other is better."
)
_POINTS = (
    "A mark per cell, with a bar over the range of its seeds; the line joins those that no other "
    "beats in both bits and metric."
)
_PALER = " Paler ones send fewer entries."
_PARTS = "Header: framing, lengths. Side: what a quantizer sends beside its values."
_BUFFERS = " Buffers: BatchNorm's statistics, in the wire and not in the content that papers count."
_LAYERS = (
    "A row per tensor of the model, in its order; a mark per cell that does not send all: the mean "
    "over the rounds that were evaluated. Within a row, each cell has a height of its own."
)
_CONFIG = {
    "responsive": True, "displaylogo": False, "doubleClick": "reset",
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
}  # fmt: skip

Section = tuple[str, str, str]
"""Its id, its heading, its HTML."""


def figures(results: Results, budget: float | None = None) -> list[Section]:
    """The sections that show the runs that are done, the answer first; none where none is.

    Args:
        results: what is on the page.
        budget: bits for which every method is compared in a table; None: no such table.
    """
    runs = results.runs
    done = runs[runs["status"] == "done"]
    if not len(done):
        return []
    rounds = results.rounds[results.rounds["run"].isin(done.index)]
    name, many = metric_name(runs), several(done)
    paler = _PALER if many and _of_several_sparsities(done) else ""
    lines = (_LINES_OF_METHODS if many else _LINES) + paler
    return [
        *_answer(results, rounds, budget, paler),
        section(
            "iterations", "Learning over iterations", lines,
            {"": charts.curves(rounds, "iteration", name)},
        ),
        section(
            "bits", "Learning over bits", lines,
            {"": charts.curves(rounds, "up_bits", name)},
        ),
        *_times(results, rounds, name, lines),
        *_matrices(runs, name),
    ]  # fmt: skip


def _times(results: Results, rounds: pd.DataFrame, name: str, lines: str) -> list[Section]:
    """The metric over simulated time and a round of it; none where no run had a network."""
    own = timed(rounds)
    if not len(own):
        return []
    key, title, text = section(
        "time", "Learning over simulated time", lines, {"": charts.curves(own, TIME, name)}
    )
    shown = section(
        "timeline", "A round on the simulated clock", caption(results), middle_rounds(results)
    )
    return [(key, title, sentence(results) + text), shown]


def parts(results: Results) -> list[Section]:
    """The sections that show what messages are made of; none where no run is done."""
    runs = results.runs
    done = runs[runs["status"] == "done"]
    if not len(done):
        return []
    text = _PARTS + (_BUFFERS if charts.send_buffers(done) else "")
    bars = {name: charts.split(own) for name, own in _apart(runs).items()}
    sections = [section("split", "What the bits are", text, bars)]
    shown = charts.layers(results.layers) if len(results.layers) else None
    if shown is not None:
        paler = _PALER if several(done) and _of_several_sparsities(done) else ""
        sections.append(section("layers", "What each layer sends", _LAYERS + paler, {"": shown}))
    return sections


def _answer(
    results: Results, rounds: pd.DataFrame, budget: float | None, paler: str
) -> list[Section]:
    """What to choose for so many bits: tables, the chart of budgets, and the front."""
    runs, name = results.runs, metric_name(results.runs)
    key, title, text = "budget", "Best within a budget of bits", tables(results, budget)
    if several(runs[runs["status"] == "done"]):
        _, _, chart = section(key, title, _BUDGET, {"": charts.budget(rounds, name)})
        text += chart
    sections = [(key, title, text)]
    if len(pareto_points(runs)) > 1:
        points = {"": charts.pareto(runs)}
        sections.append(section("front", "Metric against bits", _POINTS + paler, points))
    return sections


def _matrices(runs: pd.DataFrame, name: str) -> list[Section]:
    """The sparsity plane by metric and by ratio; none where each method has but one cell."""
    if one_celled(runs):
        return []
    shown = planes(runs)
    text = _PLANE + (_JOINED if any(grid.diagonals() for grid in shown.values()) else "")
    left = [name for name in _apart(runs) if name not in shown] if several(runs) else []
    text += f" Left out, with one cell each: {', '.join(left)}." if left else ""
    return [
        section("metric", f"Matrix: {name}", text, _planes(runs, "metric")),
        section(
            "ratio", "Matrix: compression ratio (wire)", text + " Colours are logarithmic.",
            _planes(runs, "ratio_wire"),
        ),
    ]  # fmt: skip


def _planes(runs: pd.DataFrame, value: str) -> dict[str, Chart]:
    """A plane per method, on one scale of colours."""
    if not several(runs):
        return {"": charts.heatmap(runs, value)}
    done = runs.loc[runs["status"] == "done", value]
    limits = (float(done.min()), float(done.max()))
    own = {name: of for name, of in _apart(runs).items() if name in planes(runs)}
    return {name: charts.heatmap(of, value, limits) for name, of in own.items()}


def _of_several_sparsities(runs: pd.DataFrame) -> bool:
    """Whether some method's cells differ in p, which then tells how pale they are."""
    return bool((runs.groupby("label")["gradient"].nunique() > 1).any())


def _apart(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The runs of each method by its label; of one method all, without a name."""
    if not several(runs):
        return {"": runs}
    return {name: of_method(runs, name) for name in methods_of(runs)}


def section(key: str, title: str, caption: str, draw: Mapping[str, Chart]) -> Section:
    """A section of charts, each under its name, and what they show."""
    text = ""
    for number, (name, figure) in enumerate(draw.items()):
        ending = f"-{number + 1}" if number else ""
        heading = f"<h3>{escape(name)}</h3>" if name else ""
        about = escape(f"{title}{', ' if name else ''}{name}: arrow keys go from value to value")
        text += (
            f'{heading}<figure tabindex="0" role="group" aria-label="{about}"{_style(figure)}>'
            f"{_drawn(figure, f'chart-{key}{ending}')}</figure>"
        )
    return key, escape(title), f'{text}<p class="note">{escape(caption)}</p>'


def _drawn(figure: Chart, name: str) -> str:
    """The box of a chart, and the script that draws it there."""
    parts = ", ".join(map(as_json, (figure["data"], figure["layout"], _CONFIG)))
    return (
        f'<div style="height:{figure["layout"]["height"]}px; width:100%;">'
        f'<div id="{name}" class="plotly-graph-div" style="height:100%; width:100%;"></div>'
        f'<script>Plotly.newPlot("{name}", {parts});</script></div>'
    )


def _style(figure: Chart) -> str:
    """The width of a plane of few columns, whose cells would be bands across the page."""
    first = figure["data"][0]
    return f' style="max-width:{180 + 190 * len(first["x"])}px"' if "z" in first else ""

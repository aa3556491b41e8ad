"""The page's figures as plotly's own, which refuse a property that plotly does not have."""

from typing import Any

import plotly.graph_objects as go

from fedsim.show import figures
from fedsim.show.heat import heat
from fedsim.show.report.charts import parts
from fedsim.show.report.charts.heat import heatmaps
from fedsim.show.report.charts.lines import drawn


def heatmap(runs: Any, value: str) -> go.Figure:
    """The first plane of `runs`."""
    return go.Figure(next(iter(heatmaps(heat(runs, value), runs).values())))


def curves(rounds: Any, x: str, name: str) -> go.Figure:
    """`fedsim.show.figures.curves` on the page."""
    return go.Figure(drawn(figures.curves(rounds, x, name=name)))


def budget(rounds: Any, name: str) -> go.Figure:
    """`fedsim.show.figures.budget` on the page."""
    return go.Figure(drawn(figures.budget(rounds, name)))


def pareto(runs: Any) -> go.Figure:
    """`fedsim.show.figures.pareto` on the page."""
    return go.Figure(drawn(figures.pareto(runs)))


def split(runs: Any) -> go.Figure:
    """`fedsim.show.report.charts.parts.split`."""
    return go.Figure(parts.split(runs))


def layers(table: Any) -> go.Figure | None:
    """`fedsim.show.report.charts.parts.layers`."""
    found = parts.layers(table)
    return None if found is None else go.Figure(found[0])

"""The report's charts as plotly's figures, which refuse a property that plotly does not have."""

from typing import Any

import plotly.graph_objects as go

from fedsim.show.report import charts


def heatmap(*given: Any) -> go.Figure:
    """`fedsim.show.report.charts.heatmap`."""
    return go.Figure(charts.heatmap(*given))


def curves(*given: Any) -> go.Figure:
    """`fedsim.show.report.charts.curves`."""
    return go.Figure(charts.curves(*given))


def budget(*given: Any) -> go.Figure:
    """`fedsim.show.report.charts.budget`."""
    return go.Figure(charts.budget(*given))


def pareto(*given: Any) -> go.Figure:
    """`fedsim.show.report.charts.pareto`."""
    return go.Figure(charts.pareto(*given))


def split(*given: Any) -> go.Figure:
    """`fedsim.show.report.charts.split`."""
    return go.Figure(charts.split(*given))


def layers(*given: Any) -> go.Figure | None:
    """`fedsim.show.report.charts.layers`."""
    figure = charts.layers(*given)
    return None if figure is None else go.Figure(figure)

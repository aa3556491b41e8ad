"""The report's interactive figures. User text is escaped: plotly reads tags in its labels."""

from fedsim.show.report.charts.heat import heatmap
from fedsim.show.report.charts.lines import budget, curves, pareto
from fedsim.show.report.charts.parts import layers, send_buffers, split
from fedsim.show.report.charts.timeline import timeline

__all__ = ["budget", "curves", "heatmap", "layers", "pareto", "send_buffers", "split", "timeline"]

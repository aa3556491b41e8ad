"""The sparsity plane as the page draws it: cells that tell their numbers."""

from html import escape
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.colors import to_hex

from fedsim.ground import units
from fedsim.results.labels import of_method, several
from fedsim.show.columns import sends_other_shares
from fedsim.show.heat import Heat, joints, spread_text
from fedsim.show.planes import Plane
from fedsim.show.report.charts.frame import FONT, Drawn, Trace, chart, fixed
from fedsim.show.style import FRACTION, CellKey, beside, cell_label, metric_name

# plotly's own Cividis: ten of its colours.
_COLOURS = [[k / 9, to_hex(colormaps["cividis"](k / 9))] for k in range(10)]
_PHONE = 24  # characters of 14 pixels in a row of cells on a narrow screen


def heatmaps(shown: Heat, runs: pd.DataFrame) -> dict[str, Drawn]:
    """A plane per method, by its label; the pointer on a cell shows the cell's numbers.

    Args:
        shown: the planes.
        runs: what they are of.
    """
    many, drawn = several(runs), dict[str, Drawn]()
    for name, grid in shown.panels.items():
        own_runs = of_method(runs, name) if many else runs
        places, texts = zip(*shown.shades.ticks(shown.name), strict=True)
        image: Trace = {
            "type": "heatmap", "z": shown.shades.place(grid.values), "zmin": 0, "zmax": 1,
            "x": [units.plain(p) for p in grid.gradients], "y": [str(n) for n in grid.temporals],
            "hovertext": _hovers(own_runs[~beside(own_runs)], grid), "hoverinfo": "text",
            "xgap": 2, "ygap": 2,
            "colorscale": _COLOURS, "reversescale": shown.shades.turned,
            "showscale": not shown.shades.single,
            "colorbar": {
                "thickness": 12, "tickfont": FONT, "tickvals": [*places], "ticktext": [*texts],
            },
        }  # fmt: skip
        height = 160 + 75 * max(2, len(grid.temporals))
        figure = chart([image], height, FRACTION, "communication delay n")
        layout = figure["layout"]
        layout["xaxis"] |= {"type": "category", "showgrid": False}
        layout["yaxis"] |= {"type": "category", "autorange": "reversed", "showgrid": False}
        # The cells' values, black or white by what is behind them: plotly has one ink for all.
        there = [at for at in np.ndindex(grid.values.shape) if np.isfinite(grid.values[at])]
        lines = {at: shown.lines(grid, at) for at in there}
        longest = max((len(text) for own in lines.values() for text in own), default=0)
        size = 14 if longest * len(grid.gradients) <= _PHONE else 12
        layout["annotations"] = []
        for at in np.ndindex(grid.values.shape):
            absence = grid.absence(at)
            text, font = f"<i>{absence}</i>", dict[str, Any](color="#777777")
            if absence == "failed":
                font["color"] = "#aa3333"
            if own := lines.get(at):
                text = "<br>".join(own)
                font = {"size": size, "color": shown.shades.ink(float(grid.values[at]))}
            row, column = at
            layout["annotations"].append(
                {"x": column, "y": row, "text": text, "showarrow": False, "font": font}
            )
        layout["shapes"] = [
            {"type": "line", "x0": x0, "y0": y0, "x1": x1, "y1": y1,
             "line": {"color": colour, "width": width}}
            for (x0, y0), (x1, y1) in joints(grid)
            for colour, width in (("#444444", 4), ("white", 2))  # white on a darker edge
        ]  # fmt: skip
        layout["shapes"] += [
            {"type": "line", "x0": column + at - 0.12, "x1": column + at + 0.12,
             "y0": row + 0.47, "y1": row - 0.47, "opacity": 0.3,
             "line": {"color": shown.shades.ink(float(grid.values[row, column])), "width": 1}}
            for row, column in np.ndindex(grid.values.shape) if shown.fewer(grid, (row, column))
            for at in np.linspace(-0.36, 0.36, 7)
        ]  # fmt: skip
        fixed(figure)
        drawn[name if many else ""] = figure
    return drawn


def _hovers(runs: pd.DataFrame, grid: Plane) -> list[list[str]]:
    """What the pointer says of each cell: its place, the means of its runs, and how many there are.

    Args:
        runs: those of the plane.
        grid: the plane.
    """
    name, done = metric_name(runs), runs[runs["status"] == "done"]
    by_cell = done.assign(_other=sends_other_shares(done)).groupby(["temporal", "gradient"])
    means = by_cell.mean(numeric_only=True).to_dict("index")
    texts = np.empty(grid.values.shape, object)
    for at in np.ndindex(grid.values.shape):
        n, p = grid.temporals[at[0]], grid.gradients[at[1]]
        lines = [cell_label(CellKey(n, p)), f"total sparsity p/n = {units.plain(p / n)}"]
        if (n, p) in means:
            own, seeds = means[n, p], int(grid.done[at])
            spread = by_cell["metric"].get_group((n, p)).std(ddof=1)
            deviation = spread_text(spread, seeds, name) if seeds > 1 else ""
            share = f"share of entries that travelled: {units.fraction(own.get('up_share'))}"
            lines += [
                *([share] if own["_other"] else []),
                f"{escape(name)} {units.score(own['metric'], name)} {deviation}".strip(),
                f"up {units.bits(own['up_wire_bits'])} (wire), "
                f"{units.bits(own['up_content_bits'])} (content)",
                f"down {units.bits(own['down_wire_bits'])} (wire)",
                f"ratio {units.ratio(own['ratio_wire'])} (wire), "
                f"{units.ratio(own['ratio_content'])} (content)",
                f"{units.seconds(own['seconds'])} s",
            ]
        failed = f", {grid.failed[at]} failed" if grid.failed[at] else ""
        texts[at] = "<br>".join([*lines, f"runs: {grid.done[at]} done{failed}"])
    return [[str(text) for text in row] for row in texts]

"""What messages are made of: the parts of their bits, and how much of each tensor they hold."""

from collections.abc import Sequence
from html import escape

import numpy as np
import pandas as pd

from fedsim import units
from fedsim.show.curves import by_cell, cells_of
from fedsim.show.report.charts.frame import (
    Chart,
    Trace,
    chart,
    fixed,
    legend,
    logarithmic,
    name_of,
    reading,
    scatter,
    symbol,
)
from fedsim.show.style import CellKey, Look, looks

# Paul Tol's "bright" scheme, safe for the colour-blind.
_PARTS = {"header": "#bbbbbb", "position": "#4477aa", "value": "#ccbb44", "side": "#ee6677"}
_BUFFERS = {"buffers": "#66ccee"}
_LANES = 0.75  # how much of a row its marks spread over
_BUFFER_BITS = "up_buffer_bits"


def send_buffers(runs: pd.DataFrame) -> bool:
    """Whether any run's clients sent buffers (BatchNorm's statistics) beside their updates."""
    return bool((runs[_BUFFER_BITS] > 0).any())


def split(runs: pd.DataFrame) -> Chart:
    """What a client's upstream messages consist of: a bar per cell, its parts in percent.

    The parts sum to ``up_wire_bits``. Buffers are among them where some cell sends any.
    """
    done = runs[runs["status"] == "done"]
    parts = _PARTS | (_BUFFERS if send_buffers(done) else {})
    columns = {part: _BUFFER_BITS if part in _BUFFERS else f"up_{part}_bits" for part in parts}
    cells = {name_of(cell): group[list(columns.values())].mean() for cell, group in cells_of(done)}
    means = pd.DataFrame(cells).T.fillna(0)  # results of before there were buffers lack theirs
    whole = means.sum(axis=1)
    traces = []
    for part, name in columns.items():
        share = 100 * means[name] / whole
        texts = [
            f"{bar}<br>{part}: {units.bits(bits)} of {units.bits(total)}, {percent:.1f} %"
            for bar, bits, total, percent in zip(cells, means[name], whole, share, strict=True)
        ]
        traces.append({
            "type": "bar", "x": list(share), "y": list(cells), "orientation": "h", "name": part,
            "marker": {"color": parts[part]}, "text": texts, "textposition": "none",
            "hovertemplate": "%{text}<extra></extra>",
        })  # fmt: skip
    height = 150 + (32 if len(cells) < 12 else 24) * len(cells)
    figure = chart(traces, height, "share of upstream bits (%)")
    layout = figure["layout"]
    layout["barmode"] = "stack"
    layout["legend"]["traceorder"] = "normal"
    layout["xaxis"] |= {"range": [0, 100.01], "dtick": 25}
    layout["yaxis"]["autorange"] = "reversed"
    fixed(figure)
    return figure


def layers(table: pd.DataFrame) -> Chart | None:
    """How much of each tensor travels: a row per tensor, a mark per cell; None where all travels.

    Within a row each cell has a lane, so that equal shares do not cover each other.

    Args:
        table: the frame of `fedsim.load(...).layers`; means are over its rounds and seeds.
    """
    table = table.assign(density=table["sent"] / table["entries"])
    order = list(dict.fromkeys(table["tensor"]))
    keyed, cells = by_cell(table)
    means = keyed.groupby(["_cell", "tensor"])[["density", "sent", "entries"]].mean()
    partial = keyed.loc[keyed["density"] < 1, "_cell"].unique()
    sparse = [(cells[place], means.loc[place].reindex(order)) for place in sorted(partial)]
    if not sparse:
        return None
    styles = looks(cells)
    marks = _marks(sparse, styles)
    row = max(24.0, min(10 + 6 * len(sparse), 100, 2400 / len(order)))
    figure = chart(
        [*marks, *reading({cell: styles[cell] for cell, _ in sparse}, lines=False)],
        round(150 + row * len(order)), "entries sent per message (% of the tensor)",
    )  # fmt: skip
    figure["layout"]["yaxis"] |= {
        "tickvals": list(range(len(order))), "ticktext": [escape(str(tensor)) for tensor in order],
        "range": [len(order) - 0.5, -0.5], "showgrid": False, "zeroline": False,
        "minor": {"tickvals": [place + 0.5 for place in range(len(order) - 1)], "showgrid": True,
                  "gridcolor": "#dddddd"},
    }  # fmt: skip
    logarithmic(
        figure, (share for trace in marks for share in trace["x"]),
        lambda digit, power: units.plain(digit * 10.0**power),
    )  # fmt: skip
    return figure


def _marks(
    sparse: Sequence[tuple[CellKey, pd.DataFrame]], styles: dict[CellKey, Look]
) -> list[Trace]:
    """The marks of each cell: its tensors' shares in percent, over their rows 0, 1, ..."""
    traces, known = [], set[str]()
    for place, (cell, means) in enumerate(sparse):
        look, shown = styles[cell], means[means["density"] > 0]
        texts = [
            f"{name_of(cell)}<br>{escape(str(tensor))}: {sent:.4g} of "
            f"{entries:.0f} entries, {100 * density:.3g} %"
            for tensor, density, sent, entries in shown.itertuples()
        ]
        lane = _LANES * ((place + 0.5) / len(sparse) - 0.5)
        mark = {"size": 9 if len(sparse) < 3 else 7, "line": {"color": "black", "width": 0.5}}
        traces.append(scatter(
            x=list(100 * shown["density"]),
            y=np.flatnonzero(means["density"] > 0) + lane,
            **legend(cell, known), mode="markers", text=texts,
            marker={"color": look.colour, "symbol": symbol(look), **mark},
            hovertemplate="%{text}<extra></extra>",
        ))  # fmt: skip
    return traces

"""One round on the simulated clock: a bar per client, of download, compute, upload and waiting."""

import pandas as pd

from fedsim import units
from fedsim.network.pricing import SECONDS
from fedsim.show.report.charts.frame import Chart, chart, fixed

# Paul Tol's "bright" scheme, safe for the colour-blind; waiting is pale.
_COLOURS = {"download": "#4477aa", "compute": "#ccbb44", "upload": "#ee6677", "waiting": "#dddddd"}
MOST = 30
"""Clients that one figure can hold; of more, the slowest."""


def timeline(clients: pd.DataFrame) -> Chart:
    """A bar per client, the slowest first.

    Args:
        clients: the rows of `clients.parquet` of one round.
    """
    there = clients.dropna(subset=list(SECONDS))
    busy = there[list(SECONDS[:3])].sum(axis=1)
    shown = there.loc[busy.sort_values(ascending=False, kind="stable").index[:MOST]]
    names = [_name(row) for row in shown.to_dict("records")]
    traces = []
    for (part, colour), column in zip(_COLOURS.items(), SECONDS, strict=True):
        seconds = shown[column].tolist()
        pairs = zip(names, seconds, strict=True)
        texts = [f"{name}<br>{part}: {units.duration(x)}" for name, x in pairs]
        traces.append({
            "type": "bar", "x": seconds, "y": names, "orientation": "h", "name": part,
            "marker": {"color": colour}, "text": texts, "textposition": "none",
            "hovertemplate": "%{text}<extra></extra>",
        })  # fmt: skip
    figure = chart(traces, 150 + 24 * len(shown), "simulated time of the round (seconds)")
    figure["layout"]["barmode"] = "stack"
    figure["layout"]["legend"]["traceorder"] = "normal"
    figure["layout"]["yaxis"] |= {"autorange": "reversed", "type": "category"}
    fixed(figure)
    return figure


def _name(row: dict[str, object]) -> str:
    """A client, and whether its update is not used."""
    return f"client {row['client']}" + (" (not used)" if row["failures"] else "")

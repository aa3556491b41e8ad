"""One round on the simulated clock: a bar per client, of download, compute, upload and waiting."""

import pandas as pd

from fedsim import units
from fedsim.network.pricing import SECONDS
from fedsim.show.report.charts.frame import Drawn, bars

# Paul Tol's "bright" scheme, safe for the colour-blind; waiting is pale.
_COLOURS = {"download": "#4477aa", "compute": "#ccbb44", "upload": "#ee6677", "waiting": "#dddddd"}
MOST = 30
"""Clients that one figure can hold; of more, the slowest."""


def timeline(clients: pd.DataFrame) -> Drawn:
    """A bar per client, the slowest first.

    Args:
        clients: the rows of `clients.parquet` of one round.
    """
    there = clients.dropna(subset=list(SECONDS))
    busy = there[list(SECONDS[:3])].sum(axis=1)
    shown = there.loc[busy.sort_values(ascending=False, kind="stable").index[:MOST]]
    names = [
        f"client {row['client']}" + (" (not used)" if row["failures"] else "")
        for row in shown.to_dict("records")
    ]
    parts = {}
    for (part, colour), column in zip(_COLOURS.items(), SECONDS, strict=True):
        seconds = shown[column].tolist()
        pairs = zip(names, seconds, strict=True)
        texts = [f"{name}\n{part}: {units.duration(x)}" for name, x in pairs]
        parts[part] = (colour, seconds, texts)
    return bars(parts, names, 150 + 24 * len(shown), "simulated time of the round (seconds)")

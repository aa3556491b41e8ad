"""What momentum masking did to the methods that were measured with it before."""

from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t

from experiments.common.inference import holm
from experiments.common.tables import table

from .analysis import LEVEL, scored
from .rows import RANKED

FOLDER = "masked"
"""The folder of results with the masked runs, ``finals.csv``, once the others have run."""

METHODS = ("topk", "stc", "sparseloco")


def interval(values: pd.Series) -> tuple[float, float]:
    """The mean, and half of Student's 95 % interval."""
    count = len(values)
    half = t.ppf(1 - LEVEL / 2, count - 1) * values.std() / sqrt(count) if count > 1 else np.nan
    return float(values.mean()), float(half)


def by_place(finals: pd.DataFrame, masked: pd.DataFrame) -> pd.DataFrame:
    """A line per method and ranked place: mean points unmasked less masked, paired by seed.

    Args:
        finals: runs without masking.
        masked: runs with it.

    Returns:
        ``method``, ``task``, ``budget``, ``seeds``, ``gain`` in points, ``half`` of the 95 %
        interval over seeds.
    """
    key = ["method", "task", "budget", "seed"]
    parts = [
        scored(frame[frame["method"].isin(METHODS) & frame["task"].isin(RANKED)]).set_index(key)
        for frame in (finals, masked)
    ]
    gain = (parts[0]["points"] - parts[1]["points"]).dropna()
    lines = []
    for (method, task, budget), part in gain.groupby(key[:3], sort=False):
        mean, half = interval(part)
        lines.append((method, task, budget, len(part), mean, half))
    return pd.DataFrame(lines, columns=["method", "task", "budget", "seeds", "gain", "half"])


def by_method(places: pd.DataFrame) -> pd.DataFrame:
    """A line per method: its mean gain over places with Student's interval, and Holm's p.

    Args:
        places: from ``by_place``.
    """
    lines = []
    for method in METHODS:
        gain = places.loc[places["method"] == method, "gain"]
        mean, half = interval(gain)
        error = gain.std() / sqrt(len(gain))
        p = 2 * t.sf(abs(mean) / error, len(gain) - 1) if error else 1.0
        lines.append((method, len(gain), mean, half, p))
    frame = pd.DataFrame(lines, columns=["method", "places", "gain", "half", "p"])
    return frame.assign(p=holm(frame["p"].to_numpy()))


def masking_tables(results: Path) -> dict[str, str]:
    """The page's tables of masking; a sentence while the runs without it are missing."""
    folder = results / FOLDER
    if not (folder / "finals.csv").exists():
        return dict.fromkeys(("masking", "masking/places"), "The runs without masking are missing.")
    finals = pd.concat([pd.read_csv(results / task / "finals.csv") for task in RANKED])
    places = by_place(finals, pd.read_csv(folder / "finals.csv"))
    means = [
        [
            row["method"],
            f"{row['places']}",
            f"{row['gain']:+.1f} ± {row['half']:.1f}",
            f"{row['p']:.2g}",
        ]
        for row in by_method(places).to_dict("records")
    ]
    at = places.set_index(["task", "budget", "method"])
    cells = [
        [
            task,
            f"1/{float(f'{1 / budget:.2g}'):.0f}",
            *("{gain:+.1f} ± {half:.1f}".format(**at.loc[(task, budget, m)]) for m in METHODS),
        ]
        for task in RANKED
        for budget in sorted(places.loc[places["task"] == task, "budget"].unique(), reverse=True)
    ]
    return {
        "masking": table(("method", "places", "points (95 % interval)", "p (Holm)"), means),
        "masking/places": table(("task", "budget", *METHODS), cells),
    }

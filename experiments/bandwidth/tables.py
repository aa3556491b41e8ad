"""Times to a target by method and bandwidth, with and without the seconds that coding takes."""

import pandas as pd

from experiments.common.scores import rows_of
from experiments.common.tables import table
from fedsim import Results
from fedsim.analysis import priced
from fedsim.network import Network, parse
from fedsim.units import duration, plain

from .rows import ROWS

RATES = {"1 Mbit/s": 1e6, "10 Mbit/s": 1e7, "100 Mbit/s": 1e8, "1 Gbit/s": 1e9, "10 Gbit/s": 1e10}
CLAIMED = ("100 Mbit/s", "1 Gbit/s", "10 Gbit/s")
"""DeepReduce's bandwidths."""


def times(results: Results, network: Network, target: float) -> pd.DataFrame:
    """A line per row and rate: seconds on the clock until the target, and seconds of coding.

    ``seconds`` and ``coding`` are means over seeds, NaN where a seed does not come to the target;
    ``iteration`` is the mean of the local iterations until then, ``mbit`` that of the bits, up
    and down, of one client.
    """
    found = []
    for name, rate in RATES.items():
        at = parse(f"{network.name}, up={rate:g}bit, down={rate:g}bit")
        rounds = priced(results, at).assign(row=lambda x: rows_of(x["run"]))
        rounds["coding"] = rounds["round"] * coding(rounds)
        bits = (rounds["up_wire_bits"] + rounds["down_wire_bits"]) / rounds["clients"]
        rounds["mbit"] = bits.groupby(rounds["run"]).cumsum() / 1e6
        found.append(_reached(rounds, target).assign(rate=name))
    frame = pd.concat(found)
    frame["place"] = [list(ROWS).index(row) for row in frame["row"]]
    return frame.sort_values("place", kind="stable").drop(columns="place").reset_index(drop=True)


def coding(rounds: pd.DataFrame) -> pd.Series:
    """Seconds that coding adds to a round of each run, as measured: the median of its rounds.

    Clients encode at the same time, the server decodes one after the other. What the downlink
    took is added whole, although clients decode it at the same time: too much rather than too
    little.
    """
    at_once = rounds["encode_seconds"] / rounds["clients"]
    spent = at_once + rounds["decode_seconds"] + rounds["downlink_seconds"]
    return spent.groupby(rounds["run"]).transform("median")


def _reached(rounds: pd.DataFrame, target: float) -> pd.DataFrame:
    runs = rounds.groupby(["row", "run"], sort=False).size().index.to_frame(index=False)
    first = rounds[rounds["metric"] >= target].groupby("run").first()
    columns = {"seconds": "sim_end_seconds", "coding": "coding", "iteration": "iteration",
               "mbit": "mbit"}  # fmt: skip
    for name, column in columns.items():
        runs[name] = first[column].reindex(runs["run"]).to_numpy()
    groups = runs.groupby("row", sort=False)
    means = groups[list(columns)].agg(lambda x: x.mean(skipna=False))
    means["sd"] = groups["seconds"].agg(lambda x: x.std(skipna=False))
    counts = groups["seconds"].agg(seeds="size", reached="count")
    return counts.join(means).reset_index()


def markdown(frame: pd.DataFrame) -> str:
    """A line per method: iterations and bits to the target, and the time at every rate."""
    heading = ["method", "seeds there", "iterations", "Mbit per client", *RATES]
    lines = []
    for row, part in frame.groupby("row", sort=False):
        first, at = part.iloc[0], part.set_index("rate")
        there = first["reached"] == first["seeds"]
        spent = [f"{first['iteration']:.0f}", plain(first["mbit"])] if there else ["", ""]
        seconds = [duration(at["seconds"][rate]) if there else "" for rate in RATES]
        seen = f"{first['reached']:.0f} of {first['seeds']:.0f}"
        lines.append([ROWS[str(row)].title, seen, *spent, *seconds])
    return table(heading, lines)


def speedups(frame: pd.DataFrame) -> pd.DataFrame:
    """How many times faster than no compression: by messages alone, and with coding's seconds."""
    dense = frame[frame["row"] == "dense"].set_index("rate")
    base = frame["rate"].map(dense["seconds"])
    coded = base + frame["rate"].map(dense["coding"])
    return frame.assign(
        faster=base / frame["seconds"], faster_coded=coded / (frame["seconds"] + frame["coding"])
    )


def claim(frame: pd.DataFrame) -> str:
    """DeepReduce's methods at its bandwidths: how many times faster, without and with coding."""
    fast = speedups(frame).set_index(["row", "rate"])
    lines = []
    for name, row in ROWS.items():
        if not row.claims or name not in fast.index.get_level_values("row"):
            continue
        cells = [f"×{fast['faster'][name, rate]:.2f} (×{fast['faster_coded'][name, rate]:.2f})"
                 for rate in CLAIMED]  # fmt: skip
        lines.append([row.title, *cells])
    return table(["faster than no compression (with coding)", *CLAIMED], lines)

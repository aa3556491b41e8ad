"""Times of an iteration and to a target by method and bandwidth, without and with coding.

Dense rows go by a ring allreduce. What sparse rows relay goes by the clock of a star: a message up,
the others' down; by that of a ring, an allgather, a client sends while it receives, so that only
what comes down takes time.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.common.scores import half_width, row_and_seed, rows_of
from experiments.common.tables import table
from fedsim import Results
from fedsim.ground.units import duration, plain
from fedsim.network import parse
from fedsim.show import Bandwidths, priced, times_over_bandwidths

from .rows import ROWS

RATES = {"1 Mbit/s": 1e6, "10 Mbit/s": 1e7, "100 Mbit/s": 1e8, "1 Gbit/s": 1e9, "10 Gbit/s": 1e10}
CLAIMED = ("100 Mbit/s", "1 Gbit/s", "10 Gbit/s")
"""DeepReduce's bandwidths."""

RATIOS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
"""Communication over computation: of the dense update by allreduce, over a local iteration."""

_WORDS = {"": "relayed", "_ring": "by a ring", "_coded": "relayed, with coding"}
_OF = {"each": "one iteration", "seconds": "to the target"}
_CLOCKS = {
    "": "up={rate}, down={rate}",
    "_ring": "down={rate}",
    "_coded": "up={rate}, down={rate}, coding=measured",
}


def times(results: Results, compute: str, target: float) -> pd.DataFrame:
    """A line per run and rate.

    ``seconds`` until the target, NaN where the run does not come to it, and ``each``, seconds per
    local iteration of the whole run; with ``_ring`` by an allgather in place of the star, with
    ``_coded`` and coding as measured. ``iteration`` and ``mbit``, the bits up and down of one
    client, until the target; ``computing``: seconds per local iteration.
    """
    frames = []
    for name, rate in RATES.items():
        told: dict[str, pd.DataFrame] = {}
        for clock in _CLOCKS:
            rounds = _priced(results, compute, f"{rate:g}bit", clock)
            last = rounds.groupby("run").last()
            first = rounds[rounds["metric"] >= target].groupby("run").first().reindex(last.index)
            told[clock] = pd.DataFrame(
                {
                    "iteration": first["iteration"],
                    "mbit": first["mbit"],
                    "seconds": first["sim_end_seconds"],
                    "each": last["sim_end_seconds"] / last["iteration"],
                }
            )
        lines = told[""]
        for clock in ("_ring", "_coded"):
            lines[[f"seconds{clock}", f"each{clock}"]] = told[clock][["seconds", "each"]]
        frames.append(lines.assign(rate=name, computing=parse(f"compute={compute}").compute.first))
    frame = pd.concat(frames)
    frame.insert(0, "row", rows_of(frame.index))
    frame.insert(1, "seed", [row_and_seed(run)[1] for run in frame.index])
    place = frame["row"].map(list(ROWS).index)
    return frame.iloc[np.lexsort([frame["seed"], place])].reset_index(drop=True)


def across(results: Results, compute: str, target: float) -> Bandwidths:
    """The time to the target over bandwidths, each row by its own collective."""
    dense, sparse = (
        times_over_bandwidths(part, parse(f"compute={compute}{ring}"), target)
        for part, ring in _by_collective(results)
    )
    return Bandwidths(
        dense.rates,
        np.concatenate([dense.seconds, sparse.seconds]),
        pd.concat([dense.cells, sparse.cells], ignore_index=True),
    )


def _by_collective(results: Results) -> list[tuple[Results, str]]:
    """The runs that a ring allreduce adds up, and the others; with the network's setting."""
    dense = [ROWS[row].method == "raw" for row in rows_of(results.runs.index)]
    parts = []
    for mask, ring in ((pd.Series(dense, results.runs.index), ", topology=allreduce"), (None, "")):
        chosen = results.runs[mask if mask is not None else ~np.array(dense)]
        rounds = results.rounds[results.rounds["run"].isin(chosen.index)]
        parts.append((replace(results, runs=chosen, rounds=rounds), ring))
    return parts


def _priced(results: Results, compute: str, rate: str, clock: str) -> pd.DataFrame:
    """The rounds of all runs; an allreduce sends floats as they are, and takes one clock alone."""
    tables = []
    for part, ring in _by_collective(results):
        links = _CLOCKS["" if ring else clock].format(rate=rate)
        rounds = priced(part, parse(f"compute={compute}, {links}{ring}"))
        # An allreduce sends 2 (K - 1) / K models, and receives as many.
        moved = 2 * (rounds["clients"] - 1) / rounds["clients"] if ring else 1.0
        bits = moved * (rounds["up_wire_bits"] + rounds["down_wire_bits"]) / rounds["clients"]
        tables.append(rounds.assign(mbit=bits.groupby(rounds["run"]).cumsum() / 1e6))
    return pd.concat(tables)


def markdown(frame: pd.DataFrame) -> str:
    """A line per method: iterations and bits to the target, and the time at every rate."""
    heading = ["method", "seeds there", "iterations", "Mbit per client, up and down", *RATES]
    lines = []
    for row, part in frame.groupby("row", sort=False):
        at = part.groupby("rate")
        gigabit = at.get_group("1 Gbit/s")
        there, seeds = int(gigabit["seconds"].count()), len(gigabit)
        means = at[["seconds"]].mean()["seconds"]
        spent = [f"{gigabit['iteration'].mean():.0f}", plain(gigabit["mbit"].mean())]
        cells = [*spent, *(duration(means[rate]) for rate in RATES)]
        blank = [""] * len(cells)
        lines.append(
            [ROWS[str(row)].title, f"{there} of {seeds}", *(cells if there == seeds else blank)]
        )
    return table(heading, lines)


def speedups(frame: pd.DataFrame) -> pd.DataFrame:
    """How many times as fast as no compression, seed by seed: an iteration, and to the target."""
    dense = frame[frame["row"] == "dense"].set_index(["seed", "rate"])
    key = pd.MultiIndex.from_frame(frame[["seed", "rate"]])
    speed = frame[["row", "seed", "rate"]].copy()
    for what in ("each", "seconds"):
        base = dense[what].reindex(key).to_numpy()
        for clock in _CLOCKS:
            speed[f"{what}{clock}"] = base / frame[f"{what}{clock}"]
    return speed


def claim(frame: pd.DataFrame, what: str) -> str:
    """DeepReduce's methods at its bandwidths: means over seeds with 95 % intervals.

    ``what``: ``each``, an iteration, or ``seconds``, the time to the target. Above each bandwidth
    stands communication over computation.
    """
    fast, ratio = speedups(frame), communication(frame)
    heading = [f"{rate} ({ratio[rate]:.3g})" for rate in CLAIMED]
    lines = []
    for row in _claiming(frame):
        for clock, words in _WORDS.items():
            at, cells = fast[fast["row"] == row].groupby("rate")[f"{what}{clock}"], []
            for values in (at.get_group(rate) for rate in CLAIMED):
                half = "" if len(values) == 1 else f" ± {half_width(values):.2f}"
                cells.append("" if values.isna().any() else f"{values.mean():.2f}{half}")
            lines.append([f"{ROWS[row].title}, {words}", *cells])
    return table([f"{_OF[what]}, times as fast as no compression", *heading], lines)


def _claiming(frame: pd.DataFrame) -> list[str]:
    return [name for name, row in ROWS.items() if row.claims and (frame["row"] == name).any()]


def communication(frame: pd.DataFrame) -> Mapping[str, float]:
    """By rate, the seconds that the dense update takes per iteration, over those of computing."""
    dense = frame[frame["row"] == "dense"].groupby("rate")[["each", "computing"]].mean()
    ratio: dict[str, float] = (dense["each"] / dense["computing"] - 1).to_dict()
    return ratio


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """What decides at any communication over computation, by row of the claim: means over seeds.

    ``bits``: a method's communication over that of the dense update, relayed, ``bits_ring`` by a
    ring; ``coding``: its coding over computing; ``iterations``: to the target, over the dense ones,
    NaN where a seed does not come to it.
    """
    at = frame[frame["rate"] == "1 Gbit/s"].drop(columns="rate").groupby("row")
    means = at.agg(lambda x: x.mean(skipna=False))
    dense = means.loc["dense"]
    sent = dense["each"] - dense["computing"]
    return pd.DataFrame(
        {
            "bits": (means["each"] - means["computing"]) / sent,
            "bits_ring": (means["each_ring"] - means["computing"]) / sent,
            "coding": (means["each_coded"] - means["each"]) / means["computing"],
            "iterations": means["iteration"] / dense["iteration"],
        }
    ).loc[_claiming(frame)]


def faster_from(bits: float, coding: float, iterations: float = 1.0) -> float:
    """Communication over computation from which a method is faster than none; inf: never.

    With the ratio r, an iteration takes 1 + coding + r bits in place of 1 + r, in units of
    computing; a method that needs ``iterations`` times as many takes so many times as long.

    Example:
        >>> faster_from(0.5, 0.0), faster_from(0.5, 1.0), faster_from(0.5, 0.0, 1.5)
        (0.0, 2.0, 2.0)
    """
    more, less = iterations * (1 + coding) - 1, 1 - iterations * bits
    return max(0.0, more / less) if less > 0 else float("inf")


def ratios(frame: pd.DataFrame) -> str:
    """An iteration's speed by communication over computation, and from which ratio it is faster."""
    heading = [
        "one iteration",
        "bits",
        *(f"{ratio:g}" for ratio in RATIOS),
        "faster from",
        "to the target from",
    ]
    lines = []
    for row, of in shares(frame).iterrows():
        for clock, words in _WORDS.items():
            bits = of["bits_ring" if clock == "_ring" else "bits"]
            coding = of["coding"] if clock == "_coded" else 0.0
            speed = [f"{(1 + r) / (1 + coding + r * bits):.2f}" for r in RATIOS]
            edges = [
                _edge(faster_from(bits, coding)),
                _edge(faster_from(bits, coding, of["iterations"])),
            ]
            lines.append([f"{ROWS[str(row)].title}, {words}", f"{bits:.3f}", *speed, *edges])
    return table(heading, lines)


def _edge(ratio: float) -> str:
    if np.isnan(ratio):
        return ""
    return "never" if np.isinf(ratio) else f"{ratio:.3g}"

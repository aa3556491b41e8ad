"""Tables 1, 3, 4 and Figures 2, 3 of Gajjala et al. 2020: encoders of quantized gradients.

    fedsim experiment huffman-encoders --data DIR

Trains first (``quantized_runs.py``), a model at a time; recordings that are in the results
folder are read and not made again, so that only sizes and times are new.
"""

from pathlib import Path

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from fedsim import Results

from .quantized_messages import LIFTS, QUANTIZERS, Recorded, progress
from .quantized_runs import BASELINE, BENCHMARKS, load, record
from .symbol_encoders import ENCODERS, entropy_bits, measure, zero_share
from .tables import figure, markdown, short_tables

REPEATS = {"smoke": 1, "short": 3, "paper": 5}
"""Encodings of a message, of which the quickest counts, after one that does not."""


def stored(out: Path, name: str) -> Path:
    """Where the recordings of a task are, or will be."""
    return out / "recordings" / f"{name}.npz"


def row(name: str, runs: Recorded, quantizer: str, lift: str, encoder: str, repeats: int) -> dict:
    """Bits, ratio and times of one encoder over the recorded messages of one quantizer."""
    mine = [r for r in runs.recordings if (r.quantizer, r.lift) == (quantizer, lift)]
    costs = [measure(ENCODERS[encoder], recording, repeats) for recording in mine]
    entries, bits = sum(r.entries for r in mine), sum(cost.bits for cost in costs)
    least = sum(entropy_bits(r) + r.side_bits for r in mine)
    encode, decode = (sum(c.encode_seconds for c in costs), sum(c.decode_seconds for c in costs))
    return {
        "task": name, "entries": mine[0].entries, "metric": runs.facts["metric"],
        "trivial": runs.facts["trivial"], "baseline": runs.scores[BASELINE],
        "quantizer": quantizer, "score": runs.scores[quantizer], "lift": lift,
        "encoder": encoder, "zeros_percent": 100 * sum(map(zero_share, mine)) / len(mine),
        **{f"bits_at_{100 * r.moment:.0f}": c.bits for r, c in zip(mine, costs, strict=True)},
        "ratio": 32 * entries / bits, "entropy_ratio": 32 * entries / least,
        "encode_seconds": encode / len(mine), "encode_ns": 1e9 * encode / entries,
        "decode_ns": 1e9 * decode / entries,
    }  # fmt: skip


def rows(name: str, runs: Recorded, repeats: int) -> list[dict]:
    """A row per encoder, for both lifts and all quantizers of one task."""
    todo = [(q, lift, encoder) for lift in LIFTS for q in QUANTIZERS for encoder in ENCODERS]
    return [row(name, runs, *place, repeats) for place in progress(todo, f"{name}, encoders")]


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, from what is in ``results``."""
    return short_tables(pd.read_csv(results / "tables.csv"), BENCHMARKS)


def show(asked: Asked, results: Results | None) -> Shown:
    """Trains where there is no recording yet, and measures the encoders."""
    missing = [name for name in asked.rows if not stored(asked.out, name).exists()]
    for name in missing:
        load(name, asked.folder)  # fails before any work if it does
    measured, facts = [], {}
    for name in asked.rows:
        if name in missing:
            record(name, asked.scale, asked.folder).save(stored(asked.out, name))
        runs = Recorded.load(stored(asked.out, name))
        facts[name] = runs.facts
        measured += rows(name, runs, REPEATS[asked.scale])
    frame = pd.DataFrame(measured)
    texts = {"tables": markdown(frame, facts)}
    return Shown({"tables": frame}, texts, {"volumes": figure(frame)})


def default(scale: str) -> list[str]:
    """All tasks but digits, which smoke runs alone."""
    return [name for name in BENCHMARKS if (name == "digits") == (scale == "smoke")]


EXPERIMENT = Experiment(show, rows=lambda scale: BENCHMARKS, default=default)

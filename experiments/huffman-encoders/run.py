"""Tables 1, 3, 4 and Figures 2, 3 of Gajjala et al. 2020: encoders of quantized gradients.

    fedsim experiment huffman-encoders --data DIR

Trains first (``quantized_runs.py``), a model at a time; recordings that are in the results
folder are read and not made again, so that only sizes and times are new. Table 1's models at their
full size are not trained: one gradient at their first weights is encoded.
"""

from pathlib import Path

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from fedsim import Results

from .quantized_messages import LIFTS, QUANTIZERS, Recorded, Recording, progress
from .quantized_runs import BASELINE, BENCHMARKS, GRADIENTS, first_gradient, load, record
from .symbol_encoders import ENCODERS, entropy_bits, measure, zero_share
from .tables import figure, gradient_table, markdown, short_tables

REPEATS = {"smoke": 1, "short": 3, "paper": 5}
"""Encodings of a message, of which the quickest counts, after one that does not."""


def stored(out: Path, name: str) -> Path:
    """Where the recordings of a task are, or will be."""
    return out / "recordings" / f"{name}.npz"


def row(name: str, runs: Recorded, quantizer: str, lift: str, encoder: str, repeats: int) -> dict:
    """Bits, ratio and times of one encoder over the recorded messages of one quantizer."""
    mine = [r for r in runs.recordings if (r.quantizer, r.lift) == (quantizer, lift)]
    return {
        "task": name,
        "entries": mine[0].entries,
        "metric": runs.facts["metric"],
        "trivial": runs.facts["trivial"],
        "baseline": runs.scores[BASELINE],
        "quantizer": quantizer,
        "score": runs.scores[quantizer],
        "lift": lift,
        **encoded(mine, encoder, repeats),
    }


def encoded(mine: list[Recording], encoder: str, repeats: int) -> dict:
    """What one encoder makes of messages: bits of each, the ratio of all, times per message."""
    costs = [measure(ENCODERS[encoder], recording, repeats) for recording in mine]
    entries, bits = sum(r.entries for r in mine), sum(cost.bits for cost in costs)
    least = sum(entropy_bits(r) + r.side_bits for r in mine)
    encode, decode = (sum(c.encode_seconds for c in costs), sum(c.decode_seconds for c in costs))
    return {
        "encoder": encoder,
        "zeros_percent": 100 * sum(map(zero_share, mine)) / len(mine),
        **{f"bits_at_{100 * r.moment:.0f}": c.bits for r, c in zip(mine, costs, strict=True)},
        "ratio": 32 * entries / bits,
        "entropy_ratio": 32 * entries / least,
        "encode_seconds": encode / len(mine),
        "encode_ns": 1e9 * encode / entries,
        "decode_ns": 1e9 * decode / entries,
    }


def rows(name: str, runs: Recorded, repeats: int) -> list[dict]:
    """A row per encoder, for both lifts and all quantizers of one task."""
    todo = [(q, lift, encoder) for lift in LIFTS for q in QUANTIZERS for encoder in ENCODERS]
    return [row(name, runs, *place, repeats) for place in progress(todo, f"{name}, encoders")]


def gradients(names: list[str], folder: Path | None, repeats: int) -> list[dict]:
    """A row per encoder for one gradient of each model, at its first weights, quantized by RD."""
    made = []
    for name in names:
        mine = first_gradient(name, folder)
        made += [
            {
                "task": name,
                "entries": mine.entries,
                "quantizer": mine.quantizer,
                **encoded([mine], encoder, repeats),
            }
            for encoder in progress(list(ENCODERS), f"{name}, encoders")
        ]
    return made


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, from what is in ``results``."""
    made = short_tables(pd.read_csv(results / "tables.csv"), BENCHMARKS)
    return made | {"gradients": gradient_table(pd.read_csv(results / "gradients.csv"))}


def show(asked: Asked, results: Results | None) -> Shown:
    """Trains where there is no recording yet, and measures the encoders."""
    trained = [name for name in asked.rows if name in BENCHMARKS]
    missing = [name for name in trained if not stored(asked.out, name).exists()]
    for name in missing:
        load(name, asked.folder)  # fails before any work if it does
    measured, facts, frames, texts = [], {}, {}, {}
    for name in trained:
        if name in missing:
            record(name, asked.scale, asked.folder).save(stored(asked.out, name))
        runs = Recorded.load(stored(asked.out, name))
        facts[name] = runs.facts
        measured += rows(name, runs, REPEATS[asked.scale])
    figures = {}
    if trained:
        frames["tables"] = frame = pd.DataFrame(measured)
        texts["tables"], figures["volumes"] = markdown(frame, facts), figure(frame)
    full = [name for name in asked.rows if name in GRADIENTS]
    if full:
        frames["gradients"] = pd.DataFrame(gradients(full, asked.folder, REPEATS[asked.scale]))
        texts["gradients"] = gradient_table(frames["gradients"])
    return Shown(frames, texts, figures)


def default(scale: str) -> list[str]:
    """All tasks but digits, which smoke runs alone."""
    every = [*BENCHMARKS, *GRADIENTS]
    return [name for name in every if (name == "digits") == (scale == "smoke")]


EXPERIMENT = Experiment(show, rows=lambda scale: (*BENCHMARKS, *GRADIENTS), default=default)

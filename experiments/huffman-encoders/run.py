"""Tables 1, 3, 4 and Figures 2, 3 of Gajjala et al. 2020: encoders of quantized gradients.

    fedsim experiment huffman-encoders --data DIR

Trains first (``quantized_runs.py``), a model at a time; recordings that are in the results
folder are read and not made again, so that only sizes and times are new. Table 1's models at their
full size are not trained: one gradient at their first weights is encoded.
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from compressors import SampleHuffman, SparseHuffman
from experiments.common.frame import Asked, Experiment, Shown
from fedsim import Results

from .quantized_messages import LIFTS, QUANTIZERS, Recorded, Recording, progress
from .quantized_runs import BASELINE, BENCHMARKS, GRADIENTS, first_gradient, load, record
from .symbol_encoders import CAP, ENCODERS, entropy_bits, measure, zero_share
from .tables import figure, gradient_table, markdown, sample_table, short_tables

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


SAMPLES = (100, 1_000, 10_000)
"""Symbols of the samples of footnote 3, and that of all other tables."""


def sampled(name: str, mine: Recording) -> list[dict]:
    """Footnote 3: bits of SH and SHS by the size of their sample.

    ``extra_percent`` is what they have more than if all symbols were counted, per cent of the
    length with Huffman codes.
    """
    huffman, made = measure(ENCODERS["Huffman"], mine, 1).bits, []
    for encoder, code in (("SH", SampleHuffman()), ("SHS", SparseHuffman(CAP))):
        counted = measure(replace(code, sample=mine.entries), mine, 1).bits
        for size in SAMPLES:
            bits = measure(replace(code, sample=size), mine, 1).bits
            line = {"task": name, "encoder": encoder, "sample": size, "bits": bits}
            made.append(line | {"extra_percent": 100 * (bits - counted) / huffman})
    return made


def gradients(recordings: dict[str, Recording], repeats: int) -> list[dict]:
    """A row per encoder for one gradient of each model, at its first weights, quantized by RD."""
    made = []
    for name, mine in recordings.items():
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
    full = {"gradients": gradient_table, "samples": sample_table}
    return made | {
        name: made_of(pd.read_csv(results / f"{name}.csv")) for name, made_of in full.items()
    }


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
        recordings = {name: first_gradient(name, asked.folder) for name in full}
        frames["gradients"] = pd.DataFrame(gradients(recordings, REPEATS[asked.scale]))
        lines = [line for name, mine in recordings.items() for line in sampled(name, mine)]
        frames["samples"] = pd.DataFrame(lines)
        texts["gradients"] = gradient_table(frames["gradients"])
        texts["samples"] = sample_table(frames["samples"])
    return Shown(frames, texts, figures)


def default(scale: str) -> list[str]:
    """All tasks but digits, which smoke runs alone."""
    every = [*BENCHMARKS, *GRADIENTS]
    return [name for name in every if (name == "digits") == (scale == "smoke")]


EXPERIMENT = Experiment(show, rows=lambda scale: (*BENCHMARKS, *GRADIENTS), default=default)

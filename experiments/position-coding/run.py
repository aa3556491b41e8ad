"""Bits per position of every position coder: positions of real messages, and random ones.

    fedsim experiment position-coding --data DIR

Records the positions first (``record.py``), a model at a time; patterns that are in the results
folder are not recorded again.
"""

import time
from math import lgamma, log, log2
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.progress import track

from compressors import BitReader, BitWriter, Pipeline, PositionCode, parse
from experiments.common.figures import COLOURS, canvas
from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.tables import table
from fedsim import Results

from . import record

CODERS = (
    "golomb", "golomb(exact)", "golomb(fit)", "context", "auto", "huffman", "ans", "elias_gamma",
    "elias_delta", "elias_omega", "rle", "delta_huffman", "index_huffman", "delta16", "fixed",
    "raw32", "bitmap",
)  # fmt: skip
LINES = (".-", "x:", "+--")  # seven colours each
DENSITIES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
TWO = ("golomb", "context")  # of each message by itself
PASSES = {"smoke": 1, "short": 5, "paper": 5}
"""Times that every message is coded; the fastest counts."""
HELD_OUT = 1
"""The client of the table and of the figure; constants of ``context`` were chosen on client 0."""
COLUMNS = (
    "model", "setting", "golomb", "random bound", "context", "saving", "client 0", "ans",
    "huffman", "auto", "encode ns", "decode ns", "golomb encode", "decode",
)  # fmt: skip
Message = list[tuple[np.ndarray, int]]
RANDOM_ENTRIES = {"smoke": 20_000, "short": 1_000_000, "paper": 10_000_000}


def coder(text: str) -> PositionCode:
    """The position coder that ``text`` names."""
    codec = parse(f"topk(0.5) | float32 | {text}").codec
    assert isinstance(codec, Pipeline)
    return codec.positions


def measure(code: PositionCode, messages: list[Message], passes: int) -> tuple[int, float, float]:
    """Bits of all messages, and seconds to encode and to decode them: the fastest of ``passes``.

    A message is a list of (sorted positions, n), one a tensor, in one stream of bits. Raises
    ``RuntimeError`` where a position does not come back.
    """
    times = np.zeros((passes, 2))
    for passed in range(passes):
        bits = 0
        for message in messages:
            out = BitWriter()
            start = time.perf_counter()
            for positions, n in message:
                code.write_positions(positions, n, out, 0)
            middle = time.perf_counter()
            reader = BitReader(out.to_bytes())
            again = time.perf_counter()
            got = [code.read_positions(reader, n, positions.size, 0) for positions, n in message]
            times[passed] += middle - start, time.perf_counter() - again
            bits += out.position
            for back, (positions, _) in zip(got, message, strict=True):
                if not np.array_equal(back, positions):
                    raise RuntimeError(f"{code} does not bring back {positions.size} positions")
    encode, decode = times.min(axis=0)
    return bits, encode, decode


def entropy(n: int, k: int) -> float:
    """log2 of the number of ways to choose k of n: what random positions cost at least."""
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2)


def rows(model: str, setting: str, client: int, messages: list[Message], passes: int) -> list[dict]:
    """A row per coder for one group of messages."""
    tensors = [tensor for message in messages for tensor in message]
    count = sum(positions.size for positions, _ in tensors)
    bound = sum(entropy(n, positions.size) for positions, n in tensors) / count
    made = {name: coder(name) for name in CODERS}
    table = []
    for name, code in made.items():
        bits, encode, decode = measure(code, messages, passes)
        table.append(
            {
                "model": model,
                "setting": setting,
                "client": client,
                "coder": name,
                "positions": count,
                "bits_per_position": bits / count,
                "random_bits_per_position": bound,
                "encode_ns": 1e9 * encode / count,
                "decode_ns": 1e9 * decode / count,
            }
        )
    golomb = table[0]["bits_per_position"]
    for row in table:
        row["saving_percent"] = 100 * (1 - row["bits_per_position"] / golomb)
    return table


def moment(model: str, setting: str, client: int, when: float, message: Message) -> dict:
    """One message: how many gaps are one or two, and its bits per position by two coders.

    A tensor's first gap is counted from -1; ``when`` is the share of the run that is over.
    """
    gaps = np.concatenate([np.diff(positions, prepend=-1) for positions, _ in message])
    bits = {name: measure(coder(name), [message], 1)[0] / gaps.size for name in TWO}
    return {
        "model": model,
        "setting": setting,
        "client": client,
        "moment": when,
        "positions": gaps.size,
        "gaps_of_one_or_two_percent": 100 * float((gaps <= 2).mean()),
        **{f"{name}_bits_per_position": count for name, count in bits.items()},
    }


def recorded(
    model: str, scale: str, out: Path, data: Path | None
) -> dict[tuple[str, int], dict[float, Message]]:
    """Messages by setting and client, then by moment; recorded first where they are missing."""
    path = out / "patterns" / f"{model}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        record.main(scale, [model], path, data)
    groups: dict[tuple[str, int], dict[float, Message]] = {}
    for p in record.load(path):
        if p.positions.size:
            messages = groups.setdefault((p.setting, p.client), {})
            messages.setdefault(p.moment, []).append((p.positions, p.n))
    return groups


def drawn(n: int, passes: int) -> list[dict]:
    """The rows of random positions, a density at a time."""
    generator, table = np.random.default_rng(0), []
    for p in track(DENSITIES, "random positions", transient=True):
        positions = np.sort(generator.choice(n, round(p * n), replace=False)).astype(np.int64)
        table += rows("random", f"{p:g}", 0, [[(positions, n)]], passes)
    return table


def show(asked: Asked, results: Results | None) -> Shown:
    """Measures the models that are asked for, and random positions."""
    passes = PASSES[asked.scale]
    table: list[dict] = []
    moments: list[dict] = []
    for model in asked.rows or record.TASKS:
        groups = recorded(model, asked.scale, asked.out, asked.folder)
        for (setting, client), messages in groups.items():
            table += rows(model, setting, client, list(messages.values()), passes)
            moments += [moment(model, setting, client, *message) for message in messages.items()]
    frame = pd.DataFrame(table + drawn(RANDOM_ENTRIES[asked.scale], passes))
    return Shown(
        {"moments": pd.DataFrame(moments), "positions": frame},
        {"positions": markdown(frame)},
        {"positions": figure(frame)},
        {"moments": 5, "positions": 5},
    )


EXPERIMENT = Experiment(
    show,
    rows=lambda scale: record.TASKS,
    default=lambda scale: ["digits"] if scale == "smoke" else None,
    what="models",
)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables: the models on which the coder was made, and those it had not seen."""
    frame = pd.read_csv(results / "positions.csv")
    later = frame["model"].isin([*record.OWN])
    return {"first": markdown(frame[~later]), "later": markdown(frame[later])}


def markdown(frame: pd.DataFrame) -> str:
    """Bits per position of real messages of a client that chose no coder, and the saving."""
    lines = []
    real = frame[frame["model"] != "random"]
    for (model, setting), group in real.groupby(["model", "setting"], sort=False):
        by = group[group["client"] == HELD_OUT].set_index("coder")
        bits, encode, decode = by["bits_per_position"], by["encode_ns"], by["decode_ns"]
        seen = group[group["client"] != HELD_OUT].set_index("coder")["saving_percent"]
        bound = by["random_bits_per_position"].iloc[0]
        lines.append(
            [
                model,
                setting,
                f"{bits['golomb']:.3f}",
                f"{bound:.3f}",
                f"{bits['context']:.3f}",
                f"{by['saving_percent']['context']:.1f} %",
                f"{seen['context']:.1f} %",
                *(f"{bits[name]:.3f}" for name in ("ans", "huffman", "auto")),
                *(f"{ns[name]:.0f}" for name in ("context", "golomb") for ns in (encode, decode)),
            ]
        )
    return table(COLUMNS, lines)


def figure(frame: pd.DataFrame) -> Figure:
    """Random positions: bits over the entropy; real ones: what context saves against Golomb."""
    real_ = frame[(frame["model"] != "random") & (frame["coder"] == "context")]
    real_ = real_[real_["client"] == HELD_OUT]
    drawn_ = canvas(11, max(4.4, 0.14 * len(real_)))
    left, right = drawn_.subplots(1, 2)
    random = frame[frame["model"] == "random"]
    for i, (name, group) in enumerate(random.groupby("coder", sort=False)):
        p, colour = group["setting"].astype(float), COLOURS[i % len(COLOURS)]
        line = LINES[i // len(COLOURS)]
        left.loglog(p, group["bits_per_position"], line, color=colour, label=name, linewidth=1)
    p = np.array(DENSITIES)
    bound = [-(q * log2(q) + (1 - q) * log2(1 - q)) / q for q in p]
    left.loglog(p, bound, "k--", label="entropy H(p)/p", linewidth=2)
    left.set(xlabel="density p", ylabel="bits per position", title="random positions")
    left.legend(fontsize=6, ncols=2)
    names = real_["model"] + " " + real_["setting"]
    right.barh(names, real_["saving_percent"], color=COLOURS[0])
    right.axvline(0, color="black", linewidth=0.8)
    right.set(xlabel="context: bits saved against golomb (%)", title="positions of real messages")
    right.tick_params(axis="y", labelsize=6)
    right.invert_yaxis()
    return drawn_

"""Every lossless coder on the positions and symbols of somebody's own update."""

import re
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from compressors import CATALOGUE, ROWS, BitReader, BitWriter, PerTensor, Tensors, parse, text
from fedsim.ground.errors import UsageError
from fedsim.ground.threads import one_thread
from fedsim.measure import POSITIONS_OF, SYMBOLS_OF
from fedsim.measure.inputs import check_density, check_repeat, checked_updates, texts_of
from fedsim.measure.methods import Progress, in_turn, wall_time
from fedsim.measure.patterns import has_pipeline, patterns
from fedsim.settings.methods import compressor_of, takes_fraction, with_fraction

Of = Literal["positions", "symbols"]
KINDS = ("positions", "symbols", "coder")
"""What "all" stands for: these kinds of the catalogue."""

DENSITY = 0.01
_BESIDE = ("golomb(exact)", "golomb(fit)")  # in "all", besides one coder per row
_BEFORE: dict[Of, str] = {"positions": "topk(0.5) | float32 | ", "symbols": "float32 | "}
OFS = tuple(_BEFORE)


class Coder(NamedTuple):
    """A coder's text, whether it codes positions or symbols, and the object that codes them."""

    name: str
    of: Of
    code: Any


class CoderPlan(NamedTuple):
    """The coders, and the texts of the methods whose positions and symbols these code."""

    coders: list[Coder]
    positions_of: str
    symbols_of: str


_COLUMNS = [
    "coder", "of", "count", "bits", "bits_each", "entropy_each", "ratio_to_entropy",
    "encode_ns_each", "decode_ns_each", "exact", "error",
]  # fmt: skip


def measure_coders(
    updates: Tensors | Sequence[Tensors],
    coders: str | Sequence[str] = "all",
    positions_of: str = POSITIONS_OF,
    symbols_of: str = SYMBOLS_OF,
    density: float | None = None,
    repeat: int = 3,
    seed: int = 0,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """What every coder makes of the same positions or symbols of an update.

    Every coder is given the same positions or symbols, alone: no frame, no values. A run that is
    not timed compiles what is compiled on first use; torch uses one thread.

    Args:
        updates: as ``measure`` takes them.
        coders: texts of position coders and symbol coders, as a list or separated by semicolons;
            "all": those of the whole catalogue.
        positions_of: the method whose positions of each tensor are coded, as a first message.
        symbols_of: the method whose symbols of each tensor are coded, as a first message.
        density: what ``{p}`` and bare names such as ``sbc`` in these stand for; None: 0.01.
        repeat: as ``measure`` takes it; so ``seed``.
        progress: called as (done, all, coder) before each coder and at the end.

    Returns:
        A row per coder, positions, then symbols, shortest first; sums over all tensors: coder, its
        text; of, "positions" or "symbols" (a coder of both has two rows); count, how many; bits,
        with tables and without the number of positions, which a message has in a field of its own;
        bits_each, per index or value; entropy_each, the bound: for positions n H(k / n) of every
        tensor, as of random ones, so that a coder may need less, for symbols the entropy of their
        frequencies; ratio_to_entropy, NaN where the bound is zero; encode_ns_each, decode_ns_each,
        of the median repeats; exact, whether the same positions or symbols are decoded; error, why
        the coder could not code these, with NaN elsewhere.

    Raises:
        UsageError: a text that is not a coder or not a method, a method that sends no positions
            or no symbols of these updates, or has them in no pipeline, a setting out of its range,
            or what ``measure`` refuses.

    Example:
        >>> import fedsim, torch
        >>> update = {"w": torch.linspace(-1, 1, 1000)}
        >>> table = fedsim.measure_coders(update, "golomb; ans; bitmap", density=0.1)
        >>> [(row.coder, row.of, int(row.bits)) for row in table.itertuples()][:2]
        [('ans', 'positions', 66), ('golomb', 'positions', 512)]
    """
    named = checked_updates(updates)
    check_repeat(repeat)
    plan = choose_coders(coders, positions_of, symbols_of, density)
    patterns_of: dict[Of, list[Any]] = {}
    for at, (of, method) in enumerate(zip(OFS, plan[1:], strict=True)):
        if of in {coder.of for coder in plan.coders}:
            compressor = compressor_of(method)
            patterns_of[of] = list(patterns(compressor, named, seed)[at])
            if not patterns_of[of]:
                reason = f"it sends no {of} of these updates"
                if not has_pipeline(compressor):
                    reason = "it has no pipeline, and coders of its own cannot be measured alone"
                raise UsageError(f"{of}_of is {method!r}: {reason}")
    with one_thread():
        turns = in_turn([(coder.name, coder) for coder in plan.coders], progress)
        rows = [_measured(coder, patterns_of[coder.of], repeat, seed) for _, coder in turns]
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    return frame.sort_values(["of", "bits"], kind="stable", ignore_index=True)


def choose_coders(
    coders: str | Sequence[str] = "all",
    positions_of: str = POSITIONS_OF,
    symbols_of: str = SYMBOLS_OF,
    density: float | None = None,
) -> CoderPlan:
    """The plan of ``measure_coders``; arguments and errors as there."""
    check_density(density)
    if density is not None and not any(map(takes_fraction, (positions_of, symbols_of))):
        raise UsageError(
            f"--density is {density:g}: neither {positions_of!r} nor {symbols_of!r} has a place "
            "for the density: write {p} where it belongs, or leave the density out"
        )
    methods = [with_fraction(m, density or DENSITY) for m in (positions_of, symbols_of)]
    for method in methods:
        compressor_of(method)
    if isinstance(coders, str) and coders.strip() == "all":
        texts = []
        for row in (row for row in ROWS if row.kind in KINDS):
            try:  # without settings where it needs none, else with those of its example
                texts.append(text(row.make()))
            except TypeError:
                part = re.search(rf"\b{row.name}\([^()]*\)", row.example)
                texts.append(part[0] if part else row.name)
        texts += _BESIDE
    else:
        texts = texts_of(coders, "coders", "golomb; ans")
    chosen = []
    for source in texts:
        name = source.split("(")[0].strip()
        kind = CATALOGUE[name].kind if name in CATALOGUE and "|" not in source else None
        if kind not in KINDS:
            names = ", ".join(row.name for row in ROWS if row.kind in KINDS)
            raise UsageError(f"coder {source!r}: it must be one of {names}")
        for of in (of for of in OFS if kind in (of, "coder")):
            try:
                compressor = parse(_BEFORE[of] + source)
            except ValueError as error:
                raise UsageError(str(error).replace(_BEFORE[of], "")) from error
            pipe = compressor.codec if isinstance(compressor, PerTensor) else None
            chosen.append(Coder(source.strip(), of, getattr(pipe, of)))
    return CoderPlan(chosen, *methods)


def _measured(coder: Coder, tensors: Sequence[Any], repeat: int, seed: int) -> dict[str, Any]:
    code, count = coder.code, sum(len(tensor.sent) for tensor in tensors)
    row = {"coder": coder.name, "of": coder.of, "count": count, "exact": False}
    bits, exact, encode_seconds, decode_seconds = 0, True, 0.0, 0.0
    try:
        for tensor in tensors:
            out = BitWriter()
            tensor.write(code, out, seed)
            bits, payload = bits + out.position, out.to_bytes()
            exact &= bool(np.array_equal(tensor.read(code, BitReader(payload), seed), tensor.sent))
            writes = (partial(tensor.write, code, BitWriter(), seed) for _ in range(repeat))
            reads = (partial(tensor.read, code, BitReader(payload), seed) for _ in range(repeat))
            encode_seconds += median(map(wall_time, writes))
            decode_seconds += median(map(wall_time, reads))
    except ValueError as error:  # a coder that cannot code these does not stop the others
        return row | {"error": str(error)}
    entropy = sum(tensor.entropy for tensor in tensors)
    return row | {
        "bits": bits,
        "bits_each": bits / count,
        "entropy_each": entropy / count,
        "ratio_to_entropy": bits / entropy if entropy else float("nan"),
        "encode_ns_each": 1e9 * encode_seconds / count,
        "decode_ns_each": 1e9 * decode_seconds / count,
        "exact": exact,
        "error": "",
    }

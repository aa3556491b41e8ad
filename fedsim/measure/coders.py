"""Every lossless coder on the positions and symbols of somebody's own update."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from compressors import BitReader, BitWriter, Tensors
from fedsim.ground.errors import UsageError
from fedsim.ground.threads import one_thread
from fedsim.measure.defaults import POSITIONS_OF, SYMBOLS_OF
from fedsim.measure.inputs import check_repeat, checked_updates
from fedsim.measure.methods import Progress, in_turn, wall_time
from fedsim.measure.patterns import has_pipeline, patterns
from fedsim.measure.plan import OFS, Coder, Of, choose_coders
from fedsim.settings.methods import compressor_of


@dataclass(frozen=True)
class MeasuredCoder:
    """A row: what one coder makes of all positions, or of all symbols, summed over all tensors.

    Attributes:
        coder: the coder's text as it was given, or as the catalogue names it.
        of: "positions" or "symbols"; a coder of both kinds has two rows.
        count: the number of positions, or of symbols.
        bits: bits of the code, tables included. The number of positions is not included: a
            message has a field of its own for that number.
        bits_each: bits / count: bits per index, or bits per value.
        entropy_each: the bound, in bits per index or value. For positions it is n H(k / n) of
            every tensor, as of random positions: a coder may need fewer bits where the positions
            are not random. For symbols it is the entropy of their frequencies in every tensor.
        ratio_to_entropy: bits over the bound; NaN where the bound is zero.
        encode_ns_each, decode_ns_each: nanoseconds per index or value; for every tensor the
            median of the repeats.
        exact: whether the decoded positions or symbols equal the encoded ones; the bits of a
            lossy coder are those of another set of positions.
        error: why the coder could not code these; "" where it could.
    """

    coder: str
    of: Of
    count: int
    bits: float = float("nan")
    bits_each: float = float("nan")
    entropy_each: float = float("nan")
    ratio_to_entropy: float = float("nan")
    encode_ns_each: float = float("nan")
    decode_ns_each: float = float("nan")
    exact: bool = False
    error: str = ""


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
    """A row per coder, as ``MeasuredCoder``: positions, then symbols, shortest first.

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
    frame = pd.DataFrame([asdict(row) for row in rows], columns=[f.name for f in fields(rows[0])])
    return frame.sort_values(["of", "bits"], kind="stable", ignore_index=True)


def _measured(coder: Coder, tensors: Sequence[Any], repeat: int, seed: int) -> MeasuredCoder:
    """The row of one coder of all positions, or of all symbols."""
    code, count = coder.code, sum(tensor.count for tensor in tensors)
    row = MeasuredCoder(coder.name, coder.of, count)
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
        return replace(row, error=str(error))
    entropy = sum(tensor.entropy for tensor in tensors)
    return replace(
        row,
        bits=bits,
        bits_each=bits / count,
        entropy_each=entropy / count,
        ratio_to_entropy=bits / entropy if entropy else float("nan"),
        encode_ns_each=1e9 * encode_seconds / count,
        decode_ns_each=1e9 * decode_seconds / count,
        exact=exact,
    )

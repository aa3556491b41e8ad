"""Every lossless coder on the positions and symbols of somebody's own update."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from compressors import BitReader, BitWriter, Tensors
from fedsim.errors import UsageError
from fedsim.measure.defaults import POSITIONS_OF, SYMBOLS_OF
from fedsim.measure.methods import Progress, check_repeat, checked_updates, one_thread, timed
from fedsim.measure.patterns import Positions, SymbolsSent, patterns
from fedsim.measure.plan import OFS, Coder, Of, Plan, choose_coders
from fedsim.settings.methods import compressor_of


@dataclass(frozen=True)
class MeasuredCoder:
    """A row: what one coder makes of all positions, or of all symbols. Sums over all tensors.

    Attributes:
        coder: its text, without what the catalogue fills in.
        of: "positions" or "symbols"; a coder of both kinds has two rows.
        count: how many positions, or symbols, there are.
        bits: what they take, tables included. The number of positions is not: a message says
            it beside them.
        bits_each: bits over count: bits an index, bits a value.
        entropy_each: the bound beside it. Of positions n H(k / n) of every tensor, as if they
            were random: a coder may be below where they are not. Of symbols their own
            frequencies in every tensor.
        ratio_to_entropy: bits over the bound; NaN where that is zero.
        encode_ns_each, decode_ns_each: nanoseconds an index or a value; for every tensor the
            median of the repeats.
        exact: whether what was decoded is what was encoded; a lossy coder's bits are those of
            another set.
        error: why the coder could not do it; "" where it could.
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
    """A row a coder (the columns of ``MeasuredCoder``): positions, then symbols, shortest first.

    Positions are those that ``positions_of`` sends of each tensor, and symbols those into which
    ``symbols_of`` quantizes it, as its first message. Every coder is then given the same ones,
    alone: no frame, no values. One run before the timed ones compiles what is compiled on first
    use and is not counted; torch uses one thread meanwhile.

    Args:
        updates: as ``measure`` takes them.
        coders: texts of position coders and symbol coders, as a list or separated by semicolons;
            "all" for those of the whole catalogue.
        positions_of: a method that sends positions.
        symbols_of: a method that sends symbols.
        density: what ``{p}`` and bare names such as ``sbc`` in these stand for; None: 0.01.
        repeat: timed runs, of which the median counts.
        seed: for methods with random choices.
        progress: called as (done, all, coder) before a coder and at the end.

    Raises:
        UsageError: a text that is no coder or no method, one that sends no positions or no
            symbols of these updates, a setting out of its range, or what ``measure`` refuses.

    Example:
        >>> import fedsim
        >>> update = {"w": torch.linspace(-1, 1, 1000)}
        >>> table = fedsim.measure_coders(update, "golomb; ans; bitmap", density=0.1)
        >>> [(row.coder, row.of, int(row.bits)) for row in table.itertuples()][:2]
        [('ans', 'positions', 66), ('golomb', 'positions', 512)]
    """
    named = checked_updates(updates)
    check_repeat(repeat)
    plan = choose_coders(coders, positions_of, symbols_of, density)
    given = _given(plan, named, seed)
    rows = []
    with one_thread():
        for i, coder in enumerate(plan.coders):
            if progress:
                progress(i, len(plan.coders), coder.name)
            rows.append(_measured(coder, given[coder.of], repeat, seed))
    if progress:
        progress(len(plan.coders), len(plan.coders), "")
    frame = pd.DataFrame([asdict(row) for row in rows], columns=[f.name for f in fields(rows[0])])
    return frame.sort_values(["of", "bits"], kind="stable", ignore_index=True)


def _given(plan: Plan, updates: Sequence[Tensors], seed: int) -> dict[Of, list[Any]]:
    """What the coders of each kind are given; nothing where there is none of a kind."""
    kinds = {coder.of for coder in plan.coders}
    given: dict[Of, list[Any]] = {}
    for at, (of, method) in enumerate(zip(OFS, plan[1:], strict=True)):
        if of in kinds:
            given[of] = list(patterns(compressor_of(method), updates, seed)[at])
            if not given[of]:
                raise UsageError(f"{of}_of is {method!r}: it sends no {of} of these updates")
    return given


def _measured(coder: Coder, given: Sequence[Any], repeat: int, seed: int) -> MeasuredCoder:
    count = sum(one.count for one in given)
    row = MeasuredCoder(coder.name, coder.of, count)
    run = _run_positions if coder.of == "positions" else _run_symbols
    try:
        runs = [run(coder.code, one, repeat, seed) for one in given]
    except ValueError as error:  # one coder that cannot do it does not stop the others
        return replace(row, error=str(error))
    bits, entropy = sum(one.bits for one in runs), sum(one.entropy for one in given)
    return replace(
        row, bits=bits, bits_each=bits / count, entropy_each=entropy / count,
        ratio_to_entropy=bits / entropy if entropy else float("nan"),
        encode_ns_each=1e9 * sum(one.encode for one in runs) / count,
        decode_ns_each=1e9 * sum(one.decode for one in runs) / count,
        exact=all(one.exact for one in runs),
    )  # fmt: skip


class _Run(NamedTuple):
    """One tensor there and back; times in seconds."""

    bits: int
    exact: bool
    encode: float
    decode: float


def _run_positions(code: Any, given: Positions, repeat: int, seed: int) -> _Run:
    indices, n = given.indices, given.n
    return _run(
        lambda out: code.write_positions(indices, n, out, seed),
        lambda bits: code.read_positions(bits, n, indices.size, seed),
        lambda found: np.array_equal(found, indices),
        repeat,
    )


def _run_symbols(code: Any, given: SymbolsSent, repeat: int, seed: int) -> _Run:
    codes, alphabet = given.codes, given.alphabet
    device = torch.device("cpu")
    return _run(
        lambda out: code.write_symbols(codes, alphabet, out),
        lambda bits: code.read_symbols(bits, codes.numel(), alphabet, device),
        lambda found: torch.equal(found, codes),
        repeat,
    )


def _run(
    write: Callable[[BitWriter], object], read: Callable[[BitReader], Any],
    same: Callable[[Any], bool], repeat: int,
) -> _Run:  # fmt: skip
    out = BitWriter()
    write(out)
    payload = out.to_bytes()
    exact = same(read(BitReader(payload)))
    there = [timed(lambda: write(BitWriter())) for _ in range(repeat)]
    back = [timed(lambda: read(BitReader(payload))) for _ in range(repeat)]
    return _Run(out.position, exact, median(there), median(back))

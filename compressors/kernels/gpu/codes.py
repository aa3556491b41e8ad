"""Values to symbols, what the receiver will see of them, and the residual, in one pass.

Entry i of a segment draws the noise of i (``compressors.kernels.noise``), whether it is the i-th
of a tensor or the i-th that was chosen. The twins are ``natural``, ``sign`` and ``dither`` in
``compressors.kernels``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from compressors.kernels.gpu.language import constexpr, jit, launch, tl
from compressors.kernels.gpu.layout import layout_of

ENTRIES = 2048  # per program
FLOAT32, SHARED, NATURAL, SIGN, COINS, LEVELS, POWERS = range(7)
"""What a symbol is: the float itself; nothing, for all values are one number; a power of two; the
sign of a number; the same with coins for zeros; a level from even ones, or from powers of two."""


@jit
def _draw(keys, segments, s, i):
    x = i.to(tl.uint32) * tl.load(keys + s).to(tl.uint32)
    x = x + tl.load(keys + segments + s).to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@jit
def _power(x, word, LOWEST: constexpr, HIGHEST: constexpr, SIGN: constexpr, RANDOM: constexpr):
    """The code of a power of two, and the power."""
    bits = x.to(tl.int32, bitcast=True)
    key = bits & 0x7FFFFFFF
    FLOOR: constexpr = LOWEST << 23
    if RANDOM:
        power = (key + (word & 0x7FFFFF).to(tl.int32)) & 0x7F800000
        if LOWEST > 1:
            scale: tl.constexpr = 2.0 ** (159 - LOWEST)
            rises = word.to(tl.float64) + 0.5 < tl.abs(x.to(tl.float64)) * scale
            power = tl.where(key < FLOOR, tl.where(rises, FLOOR, 0), power)
    else:
        HALF: constexpr = FLOOR - (0x400000 if LOWEST == 1 else 0x800000)
        power = (key + 0x400000) & 0x7F800000
        power = tl.where(key < FLOOR, tl.where(key >= HALF, FLOOR, 0), power)
    exponent = tl.minimum(power >> 23, HIGHEST)
    field = tl.maximum(exponent - LOWEST + 1, 0)
    minus = (bits >> 31) & 1
    value = tl.where(field > 0, (field + (LOWEST - 1)) << 23, 0) | (bits & -0x80000000)
    return (minus << SIGN) | field, value.to(tl.float32, bitcast=True)


@jit
def _level(x, word, norm, table, MANY: constexpr, IS_POWERS: constexpr):
    """The symbol of a level, and the level times the norm."""
    ratio = tl.minimum(tl.div_rn(tl.abs(x), tl.where(norm > 0.0, norm, 1.0)), 1.0)
    if IS_POWERS:
        t = ratio * (2.0 ** (MANY - 1))
        carried = ratio.to(tl.int32, bitcast=True) + (word >> 9).to(tl.int32)
        part = tl.where(t < 1.0, t, 0.0)
        low = tl.where(t < 1.0, 0, (carried >> 23) - (127 - MANY))
    else:
        t = ratio * (MANY * 1.0)
        low = t.to(tl.int32)
        part = t - low.to(tl.float32)
    up = ((word >> 1).to(tl.int32) < (part * 2147483648.0).to(tl.int32)).to(tl.int32)
    level = low + up
    code = 2 * level - ((level > 0) & (x < 0.0)).to(tl.int32)
    return code, tl.load(table + code) * norm


@jit
def _quantize(segment, first, found, origins, starts, outs, chosen, flat, numbers, keys, many,
              table, codes, values, KIND: constexpr, CHOSEN: constexpr, KEEP: constexpr,
              RANDOM: constexpr, A: constexpr, B: constexpr, C: constexpr,
              LANES: constexpr):  # fmt: skip
    b = tl.program_id(0)
    s = tl.load(segment + b)
    i = tl.load(first + b) + tl.arange(0, LANES)
    inside = i < tl.load(found + s)
    place = i
    if CHOSEN:
        place = tl.load(chosen + tl.load(origins + s) + i, mask=inside, other=0)
    entry = flat + tl.load(starts + s) + place
    x = tl.load(entry, mask=inside, other=0.0)
    number = tl.load(numbers + s)
    word = i.to(tl.uint32)
    if RANDOM:
        word = _draw(keys, tl.load(many), s, i)
    if KIND == 0:
        value = x
        code = x.to(tl.int32, bitcast=True)
    elif KIND == 1:
        value = tl.where(inside, number, 0.0)
        code = i.to(tl.int32)
    elif KIND == 2:
        code, value = _power(x, word, A, B, C, RANDOM)
    elif KIND == 3 or KIND == 4:
        code = (x < 0.0).to(tl.int32)
        if KIND == 4:
            code = tl.where(x == 0.0, (word >> 31).to(tl.int32), code)
        value = tl.where(code != 0, -number, number)
    else:
        code, value = _level(x, word, number, table, A, KIND == 6)
    out = tl.load(outs + s) + i
    if KIND != 1:
        tl.store(codes + out, code.to(codes.dtype.element_ty), mask=inside)
    tl.store(values + out, value, mask=inside)
    if KEEP:
        tl.store(entry, x - value, mask=inside)


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries that are sent, all on one device; tables are int64 (segments,).

    Args:
        flat: the vector, float32.
        starts: where each segment starts in it.
        chosen: positions within the segments, int64; None where every entry is sent.
        origins: where each segment's positions start in ``chosen``.
        found: how many each segment sends.
        outs: where each segment's symbols and values go.
        most: upper bounds of ``found``, from which the programs follow.
    """

    flat: Tensor
    starts: Tensor
    chosen: Tensor | None
    origins: Tensor
    found: Tensor
    outs: Tensor
    most: tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """What a symbol is (one of the numbers above), its dtype, and the quantizer's settings."""

    number: int
    dtype: torch.dtype
    random: bool = False
    settings: tuple[int, int, int] = (0, 0, 0)


def quantize(
    entries: Entries, kind: Kind, numbers: Tensor, keys: Tensor, table: Tensor, keep: bool
) -> tuple[Tensor, Tensor]:
    """Symbols (k,) and the float32 values (k,) that they mean, for the sum k of ``most``.

    Args:
        entries: what is sent.
        kind: what its symbols are.
        numbers: the mean, the magnitude or the norm of each segment: float32 (segments,).
        keys: multiplier and offset of each segment's noise: int64 (2, segments).
        table: the levels: float32, for ``LEVELS`` and ``POWERS`` alone.
        keep: whether the vector becomes the residual: what is sent is taken from it.
    """
    device = entries.flat.device
    layout = layout_of(entries.most, device, ENTRIES)
    codes = torch.empty(layout.total, dtype=kind.dtype, device=device)
    values = torch.empty(layout.total, dtype=torch.float32, device=device)
    many = torch.full((1,), len(entries.most), dtype=torch.int64, device=device)
    chosen = entries.origins if entries.chosen is None else entries.chosen
    a, b, c = kind.settings
    launch(_quantize, layout.blocks, *layout.tables[:2], entries.found, entries.origins,
           entries.starts, entries.outs, chosen, entries.flat, numbers, keys, many, table,
           codes, values, KIND=kind.number, CHOSEN=entries.chosen is not None, KEEP=keep,
           RANDOM=kind.random, A=a, B=b, C=c, LANES=ENTRIES)  # fmt: skip
    return codes, values


@jit
def _measure(segment, first, found, origins, starts, chosen, flat, tops, edges, sums,
             CHOSEN: constexpr, SQUARES: constexpr, LANES: constexpr):  # fmt: skip
    b = tl.program_id(0)
    s = tl.load(segment + b)
    i = tl.load(first + b) + tl.arange(0, LANES)
    inside = i < tl.load(found + s)
    place = i
    if CHOSEN:
        place = tl.load(chosen + tl.load(origins + s) + i, mask=inside, other=0)
    x = tl.load(flat + tl.load(starts + s) + place, mask=inside, other=0.0)
    key = x.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    tl.atomic_max(tops + s, tl.max(key, 0), sem="relaxed")
    tl.atomic_min(edges + s, tl.min(tl.where(key > 0, key, 0x7FFFFFFF), 0), sem="relaxed")
    size = tl.abs(x.to(tl.float64))
    if SQUARES:
        size = size * size
    tl.atomic_add(sums + s, tl.sum(size, 0), sem="relaxed")


def measure(entries: Entries, squares: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The extremes of each segment's magnitudes, and a sum over them.

    Returns:
        The largest, and the least above zero (2**31 - 1 where there is none), as IEEE bits: int32
        (segments,). The sum of magnitudes, or of their squares, in no fixed order: float64.
    """
    device = entries.flat.device
    layout = layout_of(entries.most, device, ENTRIES)
    tops = torch.zeros(len(entries.most), dtype=torch.int32, device=device)
    edges = torch.full_like(tops, 0x7FFFFFFF)
    sums = torch.zeros(len(entries.most), dtype=torch.float64, device=device)
    chosen = entries.origins if entries.chosen is None else entries.chosen
    launch(_measure, layout.blocks, *layout.tables[:2], entries.found, entries.origins,
           entries.starts, chosen, entries.flat, tops, edges, sums, SQUARES=squares,
           CHOSEN=entries.chosen is not None, LANES=ENTRIES)  # fmt: skip
    return tops, edges, sums

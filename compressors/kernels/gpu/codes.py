"""Values to symbols, what the receiver will see of them, and the residual, in one pass.

Entry i of a segment draws the noise of i (``compressors.kernels.noise``), whether it is the i-th
of a tensor or the i-th that was chosen. The twins are ``natural``, ``sign`` and ``dither`` in
``compressors.kernels``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from compressors.kernels.gpu.entries import Entries, lanes, place_of
from compressors.kernels.gpu.language import constexpr, jit, launch, tl
from compressors.kernels.kinds import SymbolKind


@jit
def _draw(keys, s, i):
    x = i.to(tl.uint32) * tl.load(keys + 2 * s).to(tl.uint32)
    x = x + tl.load(keys + 2 * s + 1).to(tl.uint32)
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
    """The symbol of a level, and the level."""
    ratio = tl.minimum(tl.div_rn(tl.abs(x), tl.where(norm > 0.0, norm, 1.0)), 1.0)
    ratio = tl.where(norm > 0.0, ratio, 0.0)
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
    return code, tl.load(table + code)


@jit
def number_of(numbers, bases, s, i, inside, BUCKET: constexpr):
    """The number of entry i of segment s: the segment's, or that of its bucket."""
    if BUCKET > 0:
        number = tl.load(numbers + tl.load(bases + s) + i // BUCKET, mask=inside, other=0.0)
    else:
        number = tl.load(numbers + s)
    return number


@jit
def _quantize(
    segment,
    first,
    counts,
    origins,
    starts,
    chosen,
    flat,
    symbol_offsets,
    numbers,
    decoded,
    bases,
    factors,
    keys,
    table,
    codes,
    values,
    KIND: constexpr,
    CHOSEN: constexpr,
    KEEP: constexpr,
    RANDOM: constexpr,
    BUCKET: constexpr,
    SHRUNK: constexpr,
    A: constexpr,
    B: constexpr,
    C: constexpr,
    LANES: constexpr,
):
    s, i, inside = lanes(segment, first, counts, LANES)
    place = place_of(chosen, origins, s, i, inside, CHOSEN)
    entry = flat + tl.load(starts + s) + place
    x = tl.load(entry, mask=inside, other=0.0)
    number = number_of(numbers, bases, s, i, inside, BUCKET)
    word = i.to(tl.uint32)
    if RANDOM:
        word = _draw(keys, s, i)
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
        code, level = _level(x, word, number, table, A, KIND == 6)
        value = level * number_of(decoded, bases, s, i, inside, BUCKET)
    if SHRUNK:
        value = value * tl.load(factors + s)
    out = tl.load(symbol_offsets + s) + i
    if KIND != 1:
        tl.store(codes + out, code.to(codes.dtype.element_ty), mask=inside)
    if CHOSEN:
        tl.store(values + out, value, mask=inside)
    if KEEP:
        tl.store(entry, x - value, mask=inside)


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers that symbols are multiples of, on the device.

    Args:
        exact: the mean, the magnitude or the norm of each segment, or of each bucket: float32.
        decoded: what the receiver knows of it, by which symbols are multiplied: float32, as many.
        bases: the number of each segment, or that of its first bucket: int64 (segments,).
        bucket: entries that share a number; 0: all of a segment.
        factors: what values are multiplied by in the end, float32 (segments,); None: nothing.
        table: the levels, float32, for ``LEVELS`` and ``POWERS`` alone.
    """

    exact: Tensor
    decoded: Tensor
    bases: Tensor
    bucket: int
    factors: Tensor | None
    table: Tensor

    @property
    def factors_given(self) -> Tensor:
        """The argument ``factors`` of a kernel: tensors alone."""
        return self.exact if self.factors is None else self.factors


def quantize(
    entries: Entries, kind: SymbolKind, numbers: Numbers, keys: Tensor | None, keep: bool
) -> tuple[Tensor, Tensor | None]:
    """Symbols (k,) and the float32 values (k,) that they mean, for the sum k of ``most``.

    Where every entry is sent the values are None: they are as many as the vector's entries, and
    whoever asks for them reads the message.

    Args:
        entries: what is sent.
        kind: what its symbols are.
        numbers: what they are multiples of.
        keys: multiplier and offset of each segment's noise: int64 (segments, 2); None for a
            method that draws none.
        keep: whether the vector becomes the residual: what is sent is taken from it.
    """
    device, layout = entries.flat.device, entries.layout()
    codes = torch.empty(layout.total, dtype=kind.dtype, device=device)
    values = None
    if entries.chosen is not None:
        values = torch.empty(layout.total, dtype=torch.float32, device=device)
    a, b, c = kind.settings
    launch(
        _quantize,
        layout.blocks,
        *entries.arguments(layout),
        entries.symbol_offsets,
        numbers.exact,
        numbers.decoded,
        numbers.bases,
        numbers.factors_given,
        entries.counts if keys is None else keys,
        numbers.table,
        codes,
        entries.flat if values is None else values,
        KIND=kind.number,
        CHOSEN=entries.chosen is not None,
        KEEP=keep,
        RANDOM=kind.random,
        BUCKET=numbers.bucket,
        SHRUNK=numbers.factors is not None,
        A=a,
        B=b,
        C=c,
        LANES=layout.block,
    )
    return codes, values

"""Symbols out of a message to values at their places, for all segments in one launch.

The twins are ``compressors.kernels.fields`` and the quantizers' ``dequantize``.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compressors.kernels.gpu.codes import Numbers, number_of
from compressors.kernels.gpu.entries import Entries, lanes, place_of
from compressors.kernels.gpu.language import constexpr, jit, launch, tl
from compressors.kernels.gpu.stream import swapped
from compressors.kernels.kinds import SymbolKind


@jit
def _take(words, position, mask, WIDTH: constexpr):
    word = words + (position >> 5)
    upper = swapped(tl.load(word, mask=mask, other=0).to(tl.uint32, bitcast=True))
    lower = swapped(tl.load(word + 1, mask=mask, other=0).to(tl.uint32, bitcast=True))
    both = (upper.to(tl.uint64) << 32) | lower.to(tl.uint64)
    field = both >> (64 - WIDTH - (position & 31)).to(tl.uint64)
    return (field & ((1 << WIDTH) - 1)).to(tl.int64)


@jit
def _unpack(
    segment,
    first,
    counts,
    origins,
    starts,
    chosen,
    flat,
    words,
    bit_offsets,
    numbers,
    bases,
    factors,
    table,
    top,
    bad,
    KIND: constexpr,
    HIGH: constexpr,
    LOW: constexpr,
    CHOSEN: constexpr,
    BUCKET: constexpr,
    SHRUNK: constexpr,
    ALPHABET: constexpr,
    A: constexpr,
    C: constexpr,
    LANES: constexpr,
):
    s, i, inside = lanes(segment, first, counts, LANES)
    many = tl.load(counts + s)
    begin = tl.load(bit_offsets + s)
    code = tl.zeros((LANES,), tl.int64)
    if LOW > 0:
        code = _take(words, begin + many * HIGH + i * LOW, inside, LOW)
    if HIGH > 0:
        code |= _take(words, begin + i * HIGH, inside, HIGH) << LOW
    tl.atomic_max(top + s, tl.max(code, 0), sem="relaxed")
    code = tl.minimum(code, ALPHABET - 1)
    number = number_of(numbers, bases, s, i, inside, BUCKET)
    if KIND == 0:
        value = code.to(tl.uint32).to(tl.float32, bitcast=True)
    elif KIND == 1:
        value = tl.where(inside, number, 0.0)
    elif KIND == 2:
        field = code & ((1 << C) - 1)
        power = tl.where(field > 0, field + (A - 1), 0) << 23
        value = (power | ((code >> C) << 31)).to(tl.uint32).to(tl.float32, bitcast=True)
    elif KIND == 3 or KIND == 4:
        value = tl.where(code != 0, -number, number)
    else:
        value = tl.load(table + code) * number
    if SHRUNK:
        value = value * tl.load(factors + s)
    exponent = value.to(tl.int32, bitcast=True) & 0x7F800000
    wrong = tl.max((inside & (exponent == 0x7F800000)).to(tl.int32), 0)
    tl.atomic_max(bad + s, wrong, mask=wrong > 0, sem="relaxed")
    place = place_of(chosen, origins, s, i, inside, CHOSEN)
    target = flat + tl.load(starts + s) + place
    tl.store(target, value, mask=inside)


@dataclass(frozen=True, eq=False)
class Packed:
    """Symbols in a message that lies on the device.

    Args:
        kind: what a symbol is.
        width: bits per symbol; above 8, except 32, in two planes.
        alphabet: how many symbols there are.
        words: the message: int32, with two to spare.
        bit_offsets: the bit at which each segment's symbols start: int64 (segments,).
        numbers: what symbols are multiples of.
    """

    kind: SymbolKind
    width: int
    alphabet: int
    words: Tensor
    bit_offsets: Tensor
    numbers: Numbers


def unpack_symbols(entries: Entries, packed: Packed) -> tuple[Tensor, Tensor]:
    """Writes the values of every segment's symbols into the vector of ``entries``.

    Args:
        entries: where the values go; the rest of the vector is left as it is.
        packed: the symbols.

    Returns:
        The largest symbol, int64 (segments,), and 1 where a value is NaN or infinite, int32.
    """
    device, layout, numbers = packed.words.device, entries.layout(), packed.numbers
    top = torch.zeros(len(entries.capacities), dtype=torch.int64, device=device)
    bad = torch.zeros(len(entries.capacities), dtype=torch.int32, device=device)
    kind, width = packed.kind, packed.width
    high = width - 8 if 8 < width < 32 else 0
    launch(
        _unpack,
        layout.blocks,
        *entries.arguments(layout),
        packed.words,
        packed.bit_offsets,
        numbers.decoded,
        numbers.bases,
        numbers.factors_given,
        numbers.table,
        top,
        bad,
        KIND=kind.number,
        HIGH=high,
        LOW=width - high,
        CHOSEN=entries.chosen is not None,
        BUCKET=numbers.bucket,
        SHRUNK=numbers.factors is not None,
        ALPHABET=packed.alphabet,
        A=kind.settings[0],
        C=kind.settings[2],
        LANES=layout.block,
    )
    return top, bad


def words_of(payload: bytes) -> np.ndarray:
    """A message as words of four bytes in its order, with two to spare: int32."""
    words = np.zeros(len(payload) // 4 + 3, np.int32)
    words.view(np.uint8)[: len(payload)] = np.frombuffer(payload, np.uint8)
    return words

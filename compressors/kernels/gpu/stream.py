"""Bits into a stream of bytes, most significant first: fields, Rice codes, symbols.

A word of 32 bits is written with its bytes in the stream's order, so that the host takes the bytes
as they come.

Fields of one message stand side by side without padding, so that two programs may write to one
word: what shares a word is put there by an atomic or, and the words start as zeros.
The twins are ``compressors.kernels.golomb`` and ``compressors.kernels.fields``.
"""

import torch
from torch import Tensor

from compressors.kernels.gpu.entries import lanes
from compressors.kernels.gpu.language import constexpr, jit, launch, tl
from compressors.kernels.gpu.layout import Programs, programs_of

CODES = 1024  # codes of positions per program
WORDS = 256  # words of a plane per program
BLOCKS = 1024  # blocks whose bits are added up together


def stream(bits: int, device: torch.device) -> Tensor:
    """Zeros for ``bits`` bits: int32 (words,), with room for a field that ends with the last."""
    return torch.zeros(bits // 32 + 3, dtype=torch.int32, device=device)


@jit
def swapped(word):
    """The uint32 ``word`` with its first byte last: as a GPU counts, and as in a stream."""
    word = ((word & 0x00FF00FF) << 8) | ((word >> 8) & 0x00FF00FF)
    return (word << 16) | (word >> 16)


@jit
def _or(word, bits, mask):
    part = swapped((bits & 0xFFFFFFFF).to(tl.uint32)).to(tl.int32, bitcast=True)
    tl.atomic_or(word, part, mask=mask & (part != 0), sem="relaxed")


@jit
def _put(words, position, value, width, mask):
    left = value.to(tl.uint64) << ((64 - width) & 63).to(tl.uint64)
    inside = (position & 31).to(tl.uint64)
    word = words + (position >> 5)
    mask = mask & (width > 0)
    _or(word, left >> (inside + 32), mask)
    _or(word + 1, left >> inside, mask)
    _or(word + 2, left << (32 - inside), mask)


@jit
def _fields(words, positions, values, widths, many, LANES: constexpr):
    i = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = i < tl.load(many)
    position = tl.load(positions + i, mask=inside, other=0)
    value = tl.load(values + i, mask=inside, other=0)
    _put(words, position, value, tl.load(widths + i, mask=inside, other=0), inside)


def put_fields_gpu(words: Tensor, positions: Tensor, values: Tensor, widths: Tensor) -> None:
    """Writes ``values`` (k,), each in ``widths`` (k,) bits, 0 to 64, from ``positions`` (k,) on.

    All int64; a value lies below 2**width.
    """
    many = torch.full((1,), values.numel(), dtype=torch.int64, device=words.device)
    launch(_fields, -(-values.numel() // 256), words, positions, values, widths, many, LANES=256)


@jit
def _gap(chosen, i, inside, origin):
    position = tl.load(chosen + origin + i, mask=inside, other=0)
    last = tl.load(chosen + origin + i - 1, mask=inside & (i > 0), other=-1)
    return tl.where(inside, position - last - 1, 0)


@jit
def _lengths(segment, first, counts, chosen, origins, low, bits, LANES: constexpr):
    s, i, inside = lanes(segment, first, counts, LANES)
    width = tl.load(low + s)
    gap = _gap(chosen, i, inside, tl.load(origins + s))
    tl.store(bits + tl.program_id(0), tl.sum(tl.where(inside, (gap >> width) + 1 + width, 0), 0))


@jit
def _running(first_block, bits, before, total, LANES: constexpr):
    s = tl.program_id(0)
    start, end = tl.load(first_block + s), tl.load(first_block + s + 1)
    so_far = 0 * start
    for block in range(start, end, LANES):
        b = block + tl.arange(0, LANES)
        lengths = tl.load(bits + b, mask=b < end, other=0)
        tl.store(before + b, so_far + tl.cumsum(lengths, 0) - lengths, mask=b < end)
        so_far += tl.sum(lengths, 0)
    tl.store(total + s, so_far)


@jit
def _rice(segment, first, counts, chosen, origins, low, before, offsets, words, LANES: constexpr):
    s, i, inside = lanes(segment, first, counts, LANES)
    width = tl.load(low + s)
    gap = _gap(chosen, i, inside, tl.load(origins + s))
    ones = gap >> width
    length = tl.where(inside, ones + 1 + width, 0)
    begin = tl.load(offsets + s) + tl.load(before + tl.program_id(0))
    position = begin + tl.cumsum(length, 0) - length
    longest = tl.max(ones, 0)
    while longest > 31:
        _put(
            words,
            position,
            tl.full((LANES,), 0xFFFFFFFF, tl.int64),
            tl.full((LANES,), 32, tl.int64),
            ones > 31,
        )
        position += tl.where(ones > 31, 32, 0)
        ones -= tl.where(ones > 31, 32, 0)
        longest -= 32
    one = tl.full((LANES,), 1, tl.int64)
    unary = ((one << ones) - 1) << (width + 1)
    _put(words, position, unary | (gap & ((one << width) - 1)), ones + 1 + width, inside)


class Rice:
    """Rice codes of the gaps between chosen positions: first how long they are, then the bits.

    Args:
        chosen: positions, those of segment s sorted from ``origins[s]`` on: int64.
        origins: int64 (segments,).
        found: how many of each segment there are: int64 (segments,).
        low: bits of the remainders, at most 32: int64 (segments,).
        most: an upper bound of ``found``, from which the programs follow.
    """

    def __init__(
        self,
        chosen: Tensor,
        origins: Tensor,
        counts: Tensor,
        low: Tensor,
        capacities: tuple[int, ...],
    ) -> None:
        self._layout: Programs = programs_of(capacities, chosen.device, CODES)
        self._arguments = (*self._layout.tables[:2], counts, chosen, origins, low)
        each = torch.empty(self._layout.blocks, dtype=torch.int64, device=chosen.device)
        launch(_lengths, self._layout.blocks, *self._arguments, each, LANES=CODES)
        self._before = torch.empty_like(each)
        self.bits = torch.empty_like(counts)
        """Bits of each segment's codes: int64 (segments,)."""
        launch(
            _running,
            len(capacities),
            self._layout.first_block,
            each,
            self._before,
            self.bits,
            LANES=BLOCKS,
        )

    def write(self, words: Tensor, offsets: Tensor) -> None:
        """Writes the codes of segment s from bit ``offsets[s]`` of ``words`` on."""
        blocks, before = self._layout.blocks, self._before
        launch(_rice, blocks, *self._arguments, before, offsets, words, LANES=CODES)


@jit
def _whole_word(words, word, part, at, end):
    """Stores ``part`` in words that are the plane's alone, of whose bits ``at`` is the first."""
    part = swapped(part).to(tl.int32, bitcast=True)
    single = (at >= 0) & (at + 32 <= end)
    tl.store(words + word, part, mask=single)
    tl.atomic_or(words + word, part, mask=(part != 0) & ~single, sem="relaxed")


@jit
def _plane_of_bits(
    segment, first, codes, origins, counts, offsets, words, LOW: constexpr, LANES: constexpr
):
    """A plane of one bit per symbol: 32 symbols are a word."""
    s = tl.load(segment + tl.program_id(0))
    begin = tl.load(offsets + s)
    word = (begin >> 5) + tl.load(first + tl.program_id(0))
    ahead = word * 32 - begin  # the program's first symbol, or bits of others before it
    end = tl.minimum(tl.load(counts + s) - ahead, LANES * 32 + 32).to(tl.int32)
    begun = tl.maximum(-ahead, 0).to(tl.int32)
    lane = tl.arange(0, LANES)
    j = tl.arange(0, 32)[None, :]
    i = lane[:, None] * 32 + j
    source = codes + tl.load(origins + s) + ahead
    code = tl.load(source + i, mask=(i >= begun) & (i < end), other=0).to(tl.int32)
    part = tl.sum(((code >> LOW) & 1) << (31 - j), 1).to(tl.uint32, bitcast=True)
    _whole_word(words, word + lane, part, lane * 32 - begun, end - begun)


@jit
def _plane(
    segment,
    first,
    codes,
    origins,
    counts,
    offsets,
    words,
    WIDTH: constexpr,
    LOW: constexpr,
    LANES: constexpr,
):
    s = tl.load(segment + tl.program_id(0))
    begin = tl.load(offsets + s)
    word = (begin >> 5) + tl.load(first + tl.program_id(0))
    ahead = word * 32 - begin  # the program's first bit, counted from the plane's
    before = tl.maximum(ahead, 0) // WIDTH
    many = tl.minimum(tl.load(counts + s) - before, LANES * 32 + 32).to(tl.int32)
    source = codes + tl.load(origins + s) + before  # from here on by 32-bit numbers
    lane = tl.arange(0, LANES)
    at = (ahead - before * WIDTH).to(tl.int32) + lane * 32
    entry = tl.maximum(at, 0) // WIDTH
    bits = tl.zeros((LANES,), tl.uint32)
    for _ in tl.static_range(30 // WIDTH + 2):
        shift = at + 32 - WIDTH - entry * WIDTH  # to the left; a code may hang over either end
        mask = (entry < many) & (shift > -WIDTH) & (shift < 32)
        code = tl.load(source + entry, mask=mask, other=0).to(tl.uint32)
        if WIDTH < 32:
            code = (code >> LOW) & ((1 << WIDTH) - 1)
        left = (tl.maximum(shift, 0) & 31).to(tl.uint32)
        right = (tl.maximum(-shift, 0) & 31).to(tl.uint32)
        bits |= tl.where(shift >= 0, code << left, code >> right)
        entry += 1
    _whole_word(words, word + lane, bits, at, many * WIDTH)


def put_plane(
    codes: Tensor,
    origins: Tensor,
    counts: Tensor,
    words: Tensor,
    offsets: Tensor,
    capacities: tuple[int, ...],
    width: int,
    low: int = 0,
) -> None:
    """Writes bits ``low`` to ``low + width - 1`` of every segment's symbols, side by side.

    Args:
        codes: symbols of whole numbers, those of segment s from ``origins[s]`` on.
        origins: int64 (segments,).
        counts: how many of each segment there are: int64 (segments,).
        words: the stream.
        offsets: the bit at which each segment's plane starts: int64 (segments,).
        capacities: an upper bound of ``counts``, from which the programs follow.
        width: bits per symbol, 1 to 32.
        low: the place of the lowest bit that is written.
    """
    touched = tuple((k * width + 62) // 32 if k else 0 for k in capacities)
    layout = programs_of(touched, words.device, WORDS)
    arguments = (*layout.tables[:2], codes, origins, counts, offsets, words)
    if width == 1:
        launch(_plane_of_bits, layout.blocks, *arguments, LOW=low, LANES=WORDS)
    else:
        launch(_plane, layout.blocks, *arguments, WIDTH=width, LOW=low, LANES=WORDS)

"""Values to symbols and back, all segments in one call; each kind of symbol has its own kernels.

Of ``powers``, ``signs`` and ``levels`` at most one is given; where none is, a symbol is the float
itself. The others are None, and their loops are not compiled.
"""

import numpy as np
from numba import njit

from compressors.kernels import dither, natural, sign
from compressors.kernels.dither import largest_magnitude
from compressors.kernels.segments.address import floats_at, words32
from compressors.kernels.segments.choose import BASE, SIZE, key_of, of_segment
from compressors.kernels.segments.planes import (
    PLANE_BLOCK,
    PLANE_WORDS,
    pack,
    pack_32,
    shift_in,
    shift_out,
    swap_bytes,
    unpack_32,
    unpack_fields,
)

_ZERO = np.float32(0.0)
_INFINITE = np.int32(0x7F800000)


@njit(cache=True, nogil=True)
def _planes(k, width, plane):
    """Where a plane of ``k`` symbols starts, the width of its fields, and what is below them."""
    if width <= 8:
        return 0, width, 0
    return (0, width - 8, 8) if plane == 0 else (k * (width - 8), 8, 0)


@njit(cache=True, nogil=True)
def _codes(x, start, seed, s, number, bucket, powers, signs, levels, codes):
    """Fills ``codes`` with the symbols of values ``start`` and on of what segment s sends.

    ``number``: the segment's numbers, one or a bucket's each.
    """
    multiplier, offset = key_of(of_segment(seed, s))
    if powers is not None:
        low, high, shift = np.uint32(powers[0]), np.uint32(powers[1]), np.uint32(powers[2])
        bits = x.view(np.uint32)
        if not powers[3]:
            natural.codes_nearest(bits, low, high, shift, codes)
        elif powers[2] == 8:
            natural.codes_random(bits, multiplier, offset, start, codes)
        else:
            natural.codes_window(x, bits, multiplier, offset, start, low, high, shift, codes)
    if signs is not None:
        if signs[0]:
            sign.with_coins(x, multiplier, offset, start, codes)
        else:
            sign.below_zero(x, codes)
    if levels is not None:
        first = 0
        while first < x.size:
            b = (start + first) // bucket if bucket else 0
            stop = min(x.size, (b + 1) * bucket - start) if bucket else x.size
            part, part_codes, at = x[first:stop], codes[first:stop], start + first
            if number[b] == _ZERO:
                part_codes[:] = 0
            elif levels[1]:
                dither.natural(part, number[b], levels[0], multiplier, offset, at, part_codes)
            else:
                dither.standard(part, number[b], levels[0], multiplier, offset, at, part_codes)
            first = stop


@njit(cache=True, nogil=True)
def _values(codes, start, number, bucket, factor, powers, signs, levels, table, out):
    """Fills ``out`` with what ``codes`` mean; arguments as those of ``_codes``."""
    if powers is not None:
        shift = np.uint32(powers[2])
        natural.decode_powers(codes, np.uint32(powers[0]), shift, out.view(np.uint32))
    if signs is not None:
        for i in range(out.size):
            out[i] = -number[0] if codes[i] else number[0]
    if levels is not None:
        first = 0
        while first < out.size:
            b = (start + first) // bucket if bucket else 0
            stop = min(out.size, (b + 1) * bucket - start) if bucket else out.size
            for i in range(first, stop):
                out[i] = table[codes[i]] * number[b]
            first = stop
    if factor is not None:
        for i in range(out.size):
            out[i] *= factor


@njit(cache=True, nogil=True)
def encode_segments(
    words,
    table,
    counts,
    offsets,
    positions,
    sources,
    where,
    keeps,
    seed,
    numbers,
    decoded,
    form,
    factors,
    powers,
    signs,
    levels,
    level_table,
):
    """Writes the symbols of all segments, and takes what they mean from what is kept.

    Args:
        words: the stream, laid out by ``frame.write_headers``: zeros where symbols go.
        table, counts, offsets, positions, form: as ``frame.write_headers`` has them.
        sources: addresses of the values: int64 (segments,). Of chosen entries they become what the
            receiver will see.
        where: addresses of the segments, from which that is taken, if ``keeps``.
        seed: of the message.
        numbers, decoded: what the symbols are multiples of, and what the receiver knows of that.
        factors: float32 (segments,) by which values are multiplied in the end, or None.
        powers: lowest and highest biased exponent, the sign's bit, and whether chance rounds.
        signs: whether zeros have coins, in a tuple.
        levels: how many above zero, and whether they are powers of two.
        level_table: the levels (``quantize.levels``); not read without ``levels``.

    Returns:
        Whether all values were finite.
    """
    width, _, bucket = form
    codes, values_ = np.empty(PLANE_BLOCK, np.uint32), np.empty(PLANE_BLOCK, np.float32)
    block = np.empty(PLANE_WORDS, np.uint64)
    worst, at = np.int32(0), 0
    for s in range(counts.size):
        k = counts[s]
        first = at if bucket else s
        at += (k + bucket - 1) // bucket if bucket else 0
        for start in range(0, k, PLANE_BLOCK):
            size = min(PLANE_BLOCK, k - start)
            x, y = floats_at(sources[s] + 4 * start, size), values_[:size]
            worst = max(worst, largest_magnitude(x))
            if powers is None and signs is None and levels is None:
                bits, position = words32(sources[s] + 4 * start, size), offsets[s] + 32 * start
                if position & 7 == 0:  # whole bytes, as in a raw message: no shifts
                    swap_bytes(bits, block.view(np.uint32))
                    out = words.view(np.uint8)[position >> 3 :]
                    narrow = block.view(np.uint8)
                    for i in range(4 * size):
                        out[i] = narrow[i]
                else:
                    pack_32(bits, block)
                    shift_in(words, position, block, 32 * size)
                for i in range(size):
                    y[i] = x[i]
            else:
                part_codes = codes[:size]
                _codes(
                    x, start, seed, s, numbers[first:], bucket, powers, signs, levels, part_codes
                )
                for plane in range(1 if width <= 8 else 2):
                    begin, wide, low = _planes(k, width, plane)
                    pack(part_codes, wide, low, block)
                    shift_in(words, offsets[s] + begin + start * wide, block, size * wide)
                if positions is not None or keeps:
                    factor = None if factors is None else factors[s]
                    _values(
                        part_codes,
                        start,
                        decoded[first:],
                        bucket,
                        factor,
                        powers,
                        signs,
                        levels,
                        level_table,
                        y,
                    )
            if positions is not None:
                for i in range(size):
                    x[i] = y[i]
            elif keeps:
                for i in range(size):
                    x[i] -= y[i]
        if positions is not None and keeps and k:
            y, base = floats_at(sources[s], k), table[BASE, s]
            x = floats_at(where[s], table[SIZE, s])
            for i in range(k):
                x[positions[base + i]] -= y[i]
    return worst < _INFINITE


@njit(cache=True, nogil=True)
def decode_segments(
    stream,
    tail,
    counts,
    offsets,
    positions,
    where,
    numbers,
    form,
    alphabet,
    factors,
    coded,
    powers,
    signs,
    levels,
    level_table,
):
    """Puts what the symbols mean into place; see ``encode_segments``.

    Args:
        stream: the payload, uint8.
        tail: what follows its whole words, and zeros: uint64 (3,).
        counts, offsets, numbers: as ``frame.parse_headers`` has filled them.
        positions: those of all segments one after the other; None where all entries travel.
        where: addresses of the segments: zeros, where not all entries travel.
        alphabet: how many symbols there are.
        coded: None where all values of a segment are its number, and there are no symbols.

    Returns:
        Whether every symbol is below the alphabet, and every value finite.
    """
    width, _, bucket = form
    codes, low_plane = np.empty(PLANE_BLOCK, np.uint32), np.empty(PLANE_BLOCK, np.uint32)
    values_, block = np.empty(PLANE_BLOCK, np.float32), np.empty(PLANE_WORDS, np.uint64)
    words, narrow = stream[: stream.size // 8 * 8].view(np.uint64), block.view(np.uint8)
    top, worst, at, taken = np.uint32(0), np.int32(0), 0, 0
    for s in range(counts.size):
        k = counts[s]
        first = at if bucket else s
        at += (k + bucket - 1) // bucket if bucket else 0
        for start in range(0, k, PLANE_BLOCK):
            size = min(PLANE_BLOCK, k - start)
            y = values_[:size] if positions is not None else floats_at(where[s] + 4 * start, size)
            if coded is None:
                for i in range(size):
                    y[i] = numbers[s]
            elif powers is None and signs is None and levels is None:
                position = offsets[s] + 32 * start
                if position & 7 == 0:
                    segment_bytes = stream[position >> 3 :]
                    for i in range(4 * size):
                        narrow[i] = segment_bytes[i]
                    swap_bytes(block.view(np.uint32)[:size], y.view(np.uint32))
                else:
                    shift_out(words, tail, position, 32 * size, block)
                    unpack_32(block, y.view(np.uint32))
            else:
                part_codes = codes[:size]
                for plane in range(1 if width <= 8 else 2):
                    begin, bits, low = _planes(k, width, plane)
                    place = offsets[s] + begin + start * bits
                    shift_out(words, tail, place, size * bits, block)
                    if plane == 0:
                        unpack_fields(block, bits, low, part_codes)
                    else:
                        unpack_fields(block, bits, low, low_plane[:size])
                        for i in range(size):
                            part_codes[i] |= low_plane[i]
                if levels is not None:  # all others fill their width
                    for i in range(size):
                        top = max(top, part_codes[i])
                    if top >= alphabet:
                        return False
                factor = None if factors is None else factors[s]
                _values(
                    part_codes,
                    start,
                    numbers[first:],
                    bucket,
                    factor,
                    powers,
                    signs,
                    levels,
                    level_table,
                    y,
                )
            worst = max(worst, largest_magnitude(y))
            if positions is not None:
                out = floats_at(where[s], 1 + positions[taken + start + size - 1])
                for i in range(size):
                    out[positions[taken + start + i]] = y[i]
        taken += k
    return worst < _INFINITE

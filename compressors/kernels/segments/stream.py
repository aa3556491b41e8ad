"""The stream of a message, segment after segment: headers, positions, numbers, and symbols.

The bits are those that ``whole.pipeline`` writes and reads with ``coders.golomb``. Each kind of
symbol has its own kernels: of ``powers``, ``signs`` and ``levels`` at most one is given; where none
is, a symbol is the float itself. The others are None, and their loops are not compiled.
"""

import numpy as np
from numba import njit

from compressors.kernels import dither, golomb, natural, sign
from compressors.kernels.dither import largest_magnitude
from compressors.kernels.elias import bit_length, leading_zeros
from compressors.kernels.fields import turned
from compressors.kernels.pack import put
from compressors.kernels.segments.address import floats_at, words32
from compressors.kernels.segments.choose import BASE, LOW, SIZE, WANTED, key_of, of_segment
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

HEADER, POSITIONS, VALUES, SIDE = range(4)
"""Places of the spans in an account, in the order of ``bits.SPANS``."""

ENDS, PAUSES = -1, -2
"""``parse_headers``: of a message that cannot be right, and of one that it cannot read alone."""

_1 = np.uint64(1)
_8 = np.uint64(8)
_63 = np.uint64(63)
_64 = np.uint64(64)
_23 = np.uint64(23)
_EXPONENT = np.uint64(0xFF)
_MOST_ZEROS = 62  # before an Elias gamma code
_ZERO = np.float32(0.0)
_INFINITE = np.int32(0x7F800000)


@njit(cache=True, nogil=True)
def write_headers(words, position, table, positions, counts, numbers, form, offsets, books):
    """Writes all but the symbols, for which it leaves room.

    Args:
        words: the stream as big-endian words, zero from bit ``position`` on, with room for it all.
        position: where the first segment starts.
        table: as ``choose`` takes it.
        positions: what ``choose`` chose, from BASE of each segment on; None where all is sent.
        counts: how many each segment sends.
        numbers: float32, one per segment, or the buckets' one after the other.
        form: what all segments have: bits of a symbol, bits of a number (0 where there is none),
            and values that share a number (0: all of a segment).
        offsets: is filled with where each segment's symbols start.
        books: the bits by span are added to it: int64 (4,).

    Returns:
        The bit after the last.
    """
    width, number_bits, bucket = form
    bits, at, done = numbers.view(np.uint32), 0, position >> 6
    words[done] = turned(words[done])  # words are written as this machine has them
    for s in range(counts.size):
        k, start = counts[s], position
        if positions is not None and table[SIZE, s]:
            if k == table[WANTED, s]:
                put(words, position, _1, 1)
                position += 1
            else:
                length = bit_length(np.uint64(k + 1))
                put(words, position + length, np.uint64(k + 1), length)  # zeros stand before it
                position += 2 * length
            books[HEADER] += position - start
            start, base = position, table[BASE, s]
            chosen = positions[base : base + k]
            position = golomb.encode_rice(chosen, table[LOW, s], words, position)
            books[POSITIONS] += position - start
        if number_bits:
            for _ in range(_numbers_of(k, bucket)):
                number = np.uint64(bits[at if bucket else s])
                at += 1
                put(words, position, number if number_bits == 32 else number >> _23, number_bits)
                position += number_bits
                books[SIDE] += number_bits
        offsets[s], full = position, position >> 6
        position += k * width
        books[VALUES] += k * width
        full += position >> 6 > full or s == counts.size - 1  # the next segment shares no word
        for w in range(done, full):
            words[w] = turned(words[w])
        done = max(full, position >> 6)
    return position


@njit(cache=True, nogil=True)
def _numbers_of(k, bucket):
    """How many numbers ``k`` values have."""
    return (k + bucket - 1) // bucket if bucket else np.int64(k > 0)


@njit(cache=True, nogil=True)
def look(stream, position):
    """The 64 bits from bit ``position`` of a payload (uint8) on; zeros follow its end."""
    first, bits = position >> 3, np.uint64(0)
    for i in range(first, first + 9):
        one = np.uint64(stream[i]) if i < stream.size else np.uint64(0)
        if i < first + 8:
            bits = (bits << _8) | one
        else:
            shift = np.uint64(position & 7)
            bits = (bits << shift) | (one >> (_8 - shift))
    return bits


@njit(cache=True, nogil=True)
def parse_headers(
    stream, words, at, table, usual, form, positions, counts, numbers, offsets, books
):
    """Reads all but the symbols: ``write_headers`` backwards, to the end or to what it cannot know.

    The low bits of a gap follow from how many entries travel; the table has them for ``usual`` of
    each segment. Where the number differs, it is in ``counts`` afterwards, and the caller goes on
    with a table that has it.

    Args:
        stream: the payload, uint8.
        words: the same as ``pack.peek`` takes it; not read without positions.
        at: the segment to go on with, its first bit, and how many numbers and positions came
            before it: int64 (4,); moved on.
        table, form: as ``write_headers`` takes them.
        usual: how many entries the table's low bits are for: int64 (segments,).
        positions: is filled with those of all segments, one after the other: int64; None where all
            entries travel.
        counts, numbers, offsets, books: are filled as ``write_headers`` takes them.

    Returns:
        The bit after the last; ``ENDS`` for what ``write_headers`` did not write, or ``PAUSES``.
    """
    width, number_bits, bucket = form
    end, bits = 8 * stream.size, numbers.view(np.uint32)
    for s in range(at[0], counts.size):
        position, many, taken = at[1], at[2], at[3]
        k = n = table[SIZE, s]
        if positions is not None and n:
            if position >= end:
                return ENDS
            k, start = table[WANTED, s], position
            position += 1
            if not look(stream, start) >> _63:
                zeros = np.int64(leading_zeros(look(stream, position)))
                if zeros > _MOST_ZEROS or position + 2 * zeros + 1 > end:
                    return ENDS
                k = np.int64(look(stream, position + zeros) >> (_63 - np.uint64(zeros))) - 1
                position += 2 * zeros + 1
            if k > table[WANTED, s] or k > positions.size - taken:
                return ENDS
            counts[s] = k
            if k and k != usual[s]:
                return PAUSES
            books[HEADER] += position - start
            start = position
            if k:
                place = positions[taken : taken + k]
                position = golomb.decode_rice(words, position, end, n, table[LOW, s], place)
                if position < 0:
                    return ENDS
            books[POSITIONS] += position - start
        counts[s] = k
        if number_bits:
            for _ in range(_numbers_of(k, bucket)):
                if position + number_bits > end:
                    return ENDS
                number = look(stream, position) >> (_64 - np.uint64(number_bits))
                number = number if number_bits == 32 else number << _23
                if (number >> _23) & _EXPONENT == _EXPONENT:
                    return ENDS  # infinity or NaN
                bits[many if bucket else s] = np.uint32(number)
                many += 1
                position += number_bits
                books[SIDE] += number_bits
        offsets[s] = position
        position += k * width
        books[VALUES] += k * width
        if position > end:
            return ENDS
        at[0], at[1], at[2], at[3] = s + 1, position, many, taken + k
    return at[1]


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
        words: the stream, laid out by ``write_headers``: zeros where symbols go.
        table, counts, offsets, positions, form: as ``write_headers`` has them.
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
        counts, offsets, numbers: as ``parse_headers`` has filled them.
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

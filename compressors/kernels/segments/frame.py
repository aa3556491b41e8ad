"""Everything of a message but its symbols: counts, positions and numbers, segment after segment.

The bits are those that ``whole.pipeline`` writes and reads with ``coders.golomb``.
"""

import numpy as np
from numba import njit

from compressors.kernels import rice
from compressors.kernels.elias import bit_length, leading_zeros
from compressors.kernels.fields import turned
from compressors.kernels.pack import put
from compressors.kernels.segments.choose import BASE, LOW, SIZE, WANTED

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
            position = rice.encode_rice(chosen, table[LOW, s], words, position)
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
                position = rice.decode_rice(words, position, end, n, table[LOW, s], place)
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

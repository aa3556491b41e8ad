"""Canonical prefix codes: symbols to bits, and bits to symbols by tables.

Codes of a length are consecutive numbers in the order of their symbols, and the first code of
a length is twice the number after the last of the length before: lengths alone tell the code.
"""

import numpy as np
from numba import njit

from compressors.kernels.pack import peek

LONGEST = 32  # bits of a code


@njit(cache=True, nogil=True)
def symbol_counts(numbers, alphabet):
    """How often each of 0 to alphabet - 1 occurs: four tables, so that equal neighbours
    need not wait for each other."""
    counts = np.zeros((4, alphabet), np.int64)
    stop = numbers.size - numbers.size % 4
    for i in range(0, stop, 4):
        counts[0, numbers[i]] += 1
        counts[1, numbers[i + 1]] += 1
        counts[2, numbers[i + 2]] += 1
        counts[3, numbers[i + 3]] += 1
    for i in range(stop, numbers.size):
        counts[0, numbers[i]] += 1
    return counts.sum(axis=0)


@njit(cache=True, nogil=True)
def depths(weights):
    """Lengths (int64) of an optimal code for two or more rising ``weights`` (int64).

    Huffman's algorithm with two queues, leaves and joined nodes; among equals a leaf goes
    first, which keeps the longest code as short as an optimal code's can be.
    """
    m = weights.size
    joined = np.zeros(m - 1, np.int64)
    above = np.zeros(2 * m - 1, np.int64)  # leaves, then joined nodes
    leaf, node = 0, 0
    for new in range(m - 1):
        for _ in range(2):
            if leaf < m and (node >= new or weights[leaf] <= joined[node]):
                joined[new] += weights[leaf]
                above[leaf] = m + new
                leaf += 1
            else:
                joined[new] += joined[node]
                above[m + node] = m + new
                node += 1
    levels = np.zeros(2 * m - 1, np.int64)
    for i in range(2 * m - 3, -1, -1):
        levels[i] = levels[above[i]] + 1
    return levels[:m]


@njit(cache=True, nogil=True)
def from_steps(first, steps, lengths):
    """Fills ``lengths`` (uint8) from zigzag steps (>= 1), the last from what is left free.

    False where a length is none of 1 to LONGEST, or the lengths make no complete code.
    """
    length = np.int64(first)
    left = np.int64(1) << LONGEST
    for i in range(lengths.size - 1):
        if i > 0:
            step = steps[i - 1] - 1
            length += -((step + 1) >> 1) if step & 1 else step >> 1
        if length < 1 or length > LONGEST:
            return False
        lengths[i] = length
        left -= np.int64(1) << (LONGEST - length)
        if left <= 0:
            return False
    if left & (left - 1):
        return False
    length = LONGEST
    while left > 1:
        left >>= 1
        length -= 1
    lengths[lengths.size - 1] = length
    return True


QUICK = 11  # bits that the first table decides; longer codes take a step a bit
_LONG = np.uint64(255)  # in place of a length: look further
_8 = np.uint64(8)
_32 = np.uint64(32)
_64 = np.uint64(64)
_LENGTH = np.uint64(255)


@njit(cache=True, nogil=True)
def _starts(lengths):
    """How many codes there are of each length, and the first of them."""
    counts = np.zeros(LONGEST + 1, np.int64)
    for length in lengths:
        counts[length] += 1
    firsts = np.zeros(LONGEST + 1, np.int64)
    for length in range(2, LONGEST + 1):
        firsts[length] = (firsts[length - 1] + counts[length - 1]) << 1
    return counts, firsts


@njit(cache=True, nogil=True)
def book(lengths, slots, size):
    """(size,) uint64: code << 8 | length, that of symbol i at ``slots[i]``."""
    _, following = _starts(lengths)
    entries = np.zeros(size, np.uint64)
    for i in range(lengths.size):
        length = lengths[i]
        entries[slots[i]] = (np.uint64(following[length]) << _8) | np.uint64(length)
        following[length] += 1
    return entries


@njit(cache=True, nogil=True)
def encode_huffman(numbers, entries, words, position):
    """Writes the code ``entries[number]`` of every number; returns the bit after the last.

    32 bits are gathered before they go to memory; the first half word keeps its bits.
    """
    half = np.int64(position) >> 5
    used = np.uint64(position) & np.uint64(31)
    word = words[half >> 1]
    half_word = (word >> _32) if half & 1 == 0 else word & np.uint64(0xFFFFFFFF)
    gathered = half_word >> (_32 - used)
    for i in range(numbers.size):
        entry = entries[numbers[i]]
        length = entry & _LENGTH
        gathered = (gathered << length) | (entry >> _8)
        used += length
        if used >= _32:
            used -= _32
            full = (gathered >> used) & np.uint64(0xFFFFFFFF)
            words[half >> 1] |= full << (_32 if half & 1 == 0 else np.uint64(0))
            half += 1
    remainder = (gathered << (_32 - used)) & np.uint64(0xFFFFFFFF)
    words[half >> 1] |= remainder << (_32 if half & 1 == 0 else np.uint64(0))
    return (half << 5) + np.int64(used)


@njit(cache=True, nogil=True)
def tables(symbols, lengths):
    """What decoding takes: (quick, bits, ends, bases, order).

    ``quick[next bits]`` is symbol << 8 | length, or 255 where the code is longer. Such a
    code of some length is below ``ends[length]``, and ``order[code + bases[length]]`` is its
    symbol: ``order`` has the symbols as their codes rise.
    """
    counts, firsts = _starts(lengths)
    longest = np.int64(lengths.max())
    bits = min(longest, QUICK)
    ends = firsts + counts
    bases = np.zeros(LONGEST + 1, np.int64)
    before = np.int64(0)
    for length in range(LONGEST + 1):
        bases[length] = before - firsts[length]
        before += counts[length]
    order = np.zeros(lengths.size, np.int64)
    quick = np.full(1 << bits, _LONG, np.uint64)
    following = firsts.copy()
    for i in range(lengths.size):
        length = np.int64(lengths[i])
        code = following[length]
        following[length] += 1
        order[code + bases[length]] = symbols[i]
        if length <= bits:
            entry = (np.uint64(symbols[i]) << _8) | np.uint64(length)
            start = code << (bits - length)
            quick[start : start + (np.int64(1) << (bits - length))] = entry
    return quick, bits, ends, bases, order


@njit(cache=True, nogil=True)
def _further(window, bits, ends, bases, order):
    """Symbol << 8 | length of a code longer than ``bits``; a code is complete: there is one."""
    for length in range(bits + 1, LONGEST + 1):
        code = np.int64(window >> (_64 - np.uint64(length)))
        if code < ends[length]:
            return (np.uint64(order[code + bases[length]]) << _8) | np.uint64(length)
    return np.uint64(LONGEST)


@njit(cache=True, nogil=True)
def decode_huffman(words, position, end, code, longest, out):
    """Fills ``out`` (unsigned); returns the bit after the last code, or -1 past bit ``end``.

    As many symbols as surely lie in 64 bits are taken from one look at the stream.
    """
    quick, bits, ends, bases, order = code
    shift = _64 - np.uint64(bits)
    at_once = 64 // max(longest, 1)
    if bits == 0:  # one symbol, which takes no bits
        out[:] = order[0]
        return np.int64(position)
    i = 0
    while i < out.size:
        window = peek(words, position)
        stop = min(out.size, i + at_once)
        taken = np.uint64(0)
        while i < stop:
            entry = quick[window >> shift]
            if entry == _LONG:
                entry = _further(window, bits, ends, bases, order)
            out[i] = entry >> _8
            window <<= entry & _LENGTH
            taken += entry & _LENGTH
            i += 1
        position += np.int64(taken)
        if position > end:
            return np.int64(-1)
    return np.int64(position)


@njit(cache=True, nogil=True)
def decode_run_tokens(words, position, end, code, runs, values, out):
    """Fills ``out`` with runs: token t stands for ``runs[t]`` times ``values[t]``.

    -1 where a code runs past bit ``end``, -2 where a run is longer than what is left of ``out``.
    """
    quick, bits, ends, bases, order = code
    filled = np.int64(0)
    while filled < out.size:
        if bits == 0:
            token = np.uint64(order[0])
        else:
            window = peek(words, position)
            entry = quick[window >> (_64 - np.uint64(bits))]
            if entry == _LONG:
                entry = _further(window, bits, ends, bases, order)
            token = entry >> _8
            position += np.int64(entry & _LENGTH)
            if position > end:
                return np.int64(-1)
        run = runs[token]
        if run > out.size - filled:
            return np.int64(-2)
        out[filled : filled + run] = values[token]
        filled += run
    return np.int64(position)


@njit(cache=True, nogil=True)
def zero_runs(numbers, gamma, alphabet, tokens):
    """Tokens of SHS into ``tokens`` (int64, one a number will do); returns how many there are.

    A number that is not zero is itself, one zero is 0, and a run of 2 to ``gamma`` zeros
    is alphabet + run - 2. A longer run is runs of ``gamma``, and what is left at its end.
    """
    filled, run = 0, 0
    for i in range(numbers.size + 1):
        more = i < numbers.size and numbers[i] == 0
        if more:
            run += 1
        if run and (run == gamma or not more):
            tokens[filled] = 0 if run == 1 else alphabet + run - 2
            filled += 1
            run = 0
        if i < numbers.size and not more:
            tokens[filled] = numbers[i]
            filled += 1
    return filled

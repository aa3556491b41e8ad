"""Run lengths: of a bitmap, and of equal symbols. Runs are written as Elias gamma codes."""

import numpy as np
from numba import njit

from compressors.kernels.elias import bit_length, leading_zeros
from compressors.kernels.pack import peek, put


@njit(cache=True, nogil=True, inline="always")
def _put_gamma(words, position, run):
    width = bit_length(np.uint64(run))
    put(words, position + width - 1, np.uint64(run), width)
    return position + 2 * width - 1


@njit(cache=True, nogil=True)
def _next_run(words, position, end, longest):
    """The next run and the bit after it; run 0 behind bit ``end`` or above ``longest``."""
    zeros = np.int64(leading_zeros(peek(words, position)))
    after = position + 2 * zeros + 1
    if zeros > 62 or after > end:
        return np.int64(0), position
    run = np.int64(peek(words, position + zeros) >> np.uint64(63 - zeros))
    return run if run <= longest else np.int64(0), after


@njit(cache=True, nogil=True)
def bitmap_runs(indices):
    """Lengths of the runs of a bitmap up to its last one; the first is of zeros, maybe none."""
    runs = np.empty(2 * indices.size, np.int64)
    count, before, start = 0, np.int64(-1), indices[0]
    for i in range(indices.size):
        if i + 1 < indices.size and indices[i + 1] == indices[i] + 1:
            continue
        runs[count] = start - before - 1
        runs[count + 1] = indices[i] - start + 1
        count += 2
        before = indices[i]
        if i + 1 < indices.size:
            start = indices[i + 1]
    return runs[:count]


@njit(cache=True, nogil=True)
def run_bits(runs):
    """Bits of the gamma codes of ``runs``; a run of none takes no bits."""
    bits = np.int64(0)
    for run in runs:
        if run:
            bits += 2 * bit_length(np.uint64(run)) - 1
    return bits


@njit(cache=True, nogil=True)
def encode_runs(runs, words, position):
    """Writes ``runs``, without those of none; returns the bit after the last."""
    for run in runs:
        if run:
            position = _put_gamma(words, position, run)
    return position


@njit(cache=True, nogil=True)
def decode_runs(words, position, end, n, k, one, indices):
    """Fills ``indices`` (none of them for a dry run); returns the bit after the last run, or -1.

    ``one``: whether the first run is of ones. -1 where the code runs past bit ``end``, past
    entry ``n``, or past ``k`` ones.
    """
    filling = indices.size > 0
    done, index = np.int64(0), np.int64(0)
    while done < k:
        run, position = _next_run(words, position, end, k - done if one else n - index)
        if run == 0 or run > n - index:
            return np.int64(-1)
        if one:
            if filling:
                for j in range(run):
                    indices[done + j] = index + j
            done += run
        index += run
        one = not one
    return position


@njit(cache=True, nogil=True)
def symbol_bits(codes, width):
    """Bits of (run, symbol) pairs: gamma codes of runs and ``width`` bits per symbol."""
    bits, start = np.int64(0), 0
    for i in range(1, codes.size + 1):
        if i == codes.size or codes[i] != codes[start]:
            bits += 2 * bit_length(np.uint64(i - start)) - 1 + width
            start = i
    return bits


@njit(cache=True, nogil=True)
def encode_run_pairs(codes, width, words, position):
    """Writes (run, symbol) pairs; returns the bit after the last."""
    start = 0
    for i in range(1, codes.size + 1):
        if i == codes.size or codes[i] != codes[start]:
            position = _put_gamma(words, position, i - start)
            put(words, position, np.uint64(codes[start]), width)
            position += width
            start = i
    return position


@njit(cache=True, nogil=True)
def decode_run_pairs(words, position, end, k, alphabet, width, codes):
    """Fills ``codes`` (none of them for a dry run); returns the bit after the last pair, or -1.

    -1 where the code runs past bit ``end`` or past ``k`` symbols, or a code is not a symbol.
    """
    done, filling = np.int64(0), codes.size > 0
    limit, low = np.uint64(alphabet), np.uint64(64 - width)
    while done < k:
        run, position = _next_run(words, position, end, k - done)
        if run == 0 or position + width > end:
            return np.int64(-1)
        symbol = peek(words, position) >> low
        position += width
        if symbol >= limit:
            return np.int64(-1)
        if filling:
            for j in range(run):
                codes[done + j] = symbol
        done += run
    return position

"""Ternary symbols five a byte, and runs of the byte that means five zeros (3LC)."""

import numpy as np
from numba import njit

from compressors.kernels.pack import peek, put

_ZEROS = 121  # five symbols 0: 81 + 27 + 9 + 3 + 1
_FIRST_RUN = 243  # two bytes 121; 244 is three, and so on
LONGEST_RUN = 14  # bytes 121 in byte 255


@njit(cache=True, nogil=True)
def quantize_trits(x, half, groups):
    """0, 1, 2 for below -half, between, above half; 5 ``groups`` of them, 1 past the end."""
    trits = np.ones(5 * groups, np.uint8)
    for i in range(x.size):
        value = np.float64(x[i])
        trits[i] = 1 + (value > half) - (value < -half)
    return trits


@njit(cache=True, nogil=True)
def _put_run(words, position, run):
    """Bytes for ``run`` times five zeros, the longest runs first."""
    while run:
        part = min(run, LONGEST_RUN)
        byte = _ZEROS if part == 1 else _FIRST_RUN + part - 2
        put(words, position, np.uint64(byte), 8)
        position += 8
        run -= part
    return position


@njit(cache=True, nogil=True)
def encode_trits(trits, words, position):
    """Writes the symbols at bit ``position``; returns the bit after the last.

    Byte g is made of symbols g, g + G, ..., g + 4 G of G groups: five parts side by side. At
    most 8 bits a group are written.
    """
    groups = trits.size // 5
    run = 0
    for g in range(groups):
        byte = 0
        for part in range(5):
            byte = 3 * byte + trits[g + part * groups]
        if byte == _ZEROS:
            run += 1
            continue
        position = _put_run(words, position, run)
        run = 0
        put(words, position, np.uint64(byte), 8)
        position += 8
    return _put_run(words, position, run)


@njit(cache=True, nogil=True)
def decode_trits(words, position, end, trits):
    """Fills ``trits`` from bit ``position``; returns the bit after the last, or -1.

    -1 means that the bytes ran past bit ``end``, or a run past the last group.
    """
    groups = trits.size // 5
    g = 0
    while g < groups:
        if position + 8 > end:
            return -1
        byte = np.int64(peek(words, position) >> np.uint64(56))
        position += 8
        times = 1
        if byte >= _FIRST_RUN:
            times, byte = byte - _FIRST_RUN + 2, _ZEROS
        if times > groups - g:
            return -1
        for part in range(4, -1, -1):
            for t in range(times):
                trits[g + t + part * groups] = byte % 3
            byte //= 3
        g += times
    return position

"""Where the first of m draws falls: a cumulative share in integers, by pieces of straight line.

A mass before a place, as a fraction s of all that is left, holds the first of m draws
with chance 1 - (1 - s)**m. ``TABLE[c]`` has that at 65 values of s for a class c of
about equal m (all m up to 16, then eight classes an octave), in units of 2**-31; between
them the share grows linearly. For m above 16 the 64 pieces cover only the first 16 / m of
the mass and one last piece the rest. Every piece keeps a least slope, so that masses of
one in 2**22 still have a share.
"""

import numpy as np
from numba import njit

POWER = 31
ONE = np.uint64(1 << POWER)
_PIECES = 64
_25 = np.uint64(25)
_31 = np.uint64(31)
_OCTAVES = 16
CLASSES = 17 + 8 * _OCTAVES
_LEAST = 1 << 17  # of a piece, in units of 2**-31
_SCALE = np.uint64(1 << 53)
_22 = np.uint64(22)


def _row(m: int, zoom: int) -> list[int]:
    """The table's row of ``m`` draws whose pieces cover 2**-zoom of the mass; integers alone."""
    one, left = 1 << 62, 1 << POWER
    row = []
    for i in range(_PIECES + 1):
        base = one - (one >> (6 + zoom)) * i
        power, exponent = one, m
        while exponent:
            if exponent & 1:
                power = power * base >> 62
            base = base * base >> 62
            exponent >>= 1
        row.append(left - (power >> 31))
    row.append(left)
    floor = [_LEAST * i for i in range(_PIECES + 1)] + [left]
    last = left >> 8 if zoom else 0  # the last piece keeps more: it is wide
    floor[-1] = _LEAST * _PIECES + last
    spare = left - floor[-1]
    mixed = [value * spare // left + low for value, low in zip(row, floor, strict=True)]
    mixed[-1] = left
    if not zoom:
        mixed[-2] = left
    return mixed


def _tables() -> tuple[np.ndarray, np.ndarray]:
    """``TABLE`` (classes, 66), and for every 64th of the shares the piece in which it starts."""
    rows = [_row(c, 0) for c in range(17)]
    for c in range(17, CLASSES):
        octave, eighth = divmod(c - 17, 8)
        rows.append(_row(int((16 << octave) * (16 + 2 * eighth + 1) / 16), 1 + octave))
    table = np.array(rows, np.int64)
    starts = np.arange(_PIECES) << (POWER - 6)
    hints = [np.searchsorted(row, starts, side="right") - 1 for row in table]
    return table.astype(np.uint64), np.clip(np.array(hints), 0, _PIECES).astype(np.uint8)


TABLE, HINTS = _tables()


@njit(cache=True, nogil=True, inline="always")
def class_of(m):
    """The class of ``m`` draws, and by how many halvings its pieces cover less than all."""
    if m <= 16:
        return m, np.uint64(0)
    zoom = 1
    while m >= 32 and zoom < _OCTAVES:
        m >>= 1
        zoom += 1
    return 17 + 8 * (zoom - 1) + min((m - 16) >> 1, 7), np.uint64(zoom)


@njit(cache=True, nogil=True, inline="always")
def scale_of(total):
    """The factor on a mass; ``total`` <= 2**22."""
    return _SCALE // np.uint64(total)


@njit(cache=True, nogil=True, inline="always")
def before(mass, scale, c, zoom):
    """The share before ``mass`` (uint64), strictly growing; ``c`` and ``zoom`` of ``class_of``."""
    x = (mass * scale) >> _22
    shift = _25 - zoom
    piece = x >> shift
    if piece >= np.uint64(_PIECES):
        piece = np.uint64(_PIECES)
        shift = _31
        offset = x - (np.uint64(_PIECES) << (_25 - zoom))
    else:
        offset = x - (piece << shift)
    low = TABLE[c, piece]
    return low + ((offset * (TABLE[c, piece + np.uint64(1)] - low)) >> shift)


@njit(cache=True, nogil=True, inline="always")
def guess(share, total, c, zoom):
    """About the mass before which ``share`` lies; the caller checks it."""
    piece = np.int64(HINTS[c, share >> _25])
    while piece < _PIECES and TABLE[c, piece + 1] <= share:
        piece += 1
    low = TABLE[c, piece]
    shift = _25 - zoom if piece < _PIECES else _31
    part = float(share - low + np.uint64(1)) / float(TABLE[c, piece + 1] - low)
    x = float(np.uint64(piece) << (_25 - zoom)) + part * float(np.uint64(1) << shift)
    mass = np.int64(x * (1.0 / 2147483648.0) * total)
    return min(mass, total - 1)

"""Piecewise polynomials through a sorted curve, by sums and products in a fixed order.

The least-squares polynomial of a piece with N evenly spaced points is a sum of polynomials
that are orthonormal on those points (Gram's; t from -1 to 1, mean of squares 1). They
follow from a recurrence, so no system of equations is solved and no library is asked: the
same bytes everywhere. A coefficient is a mean, never beyond the largest magnitude fitted.
"""

import math

import numpy as np
from numba import njit

LARGEST = float(np.finfo(np.float32).max)


@njit(cache=True, nogil=True)
def _farthest(curve, start, stop, least):
    """The rank farthest from the chord of a piece that leaves ``least`` points on both sides.

    Also its squared distance; -1 where there is none, or all lie on the chord.
    """
    slope = (curve[stop - 1] - curve[start]) / max(1, stop - 1 - start)
    rank, largest = -1, 0.0
    for i in range(start + least, stop - least + 1):
        off = curve[start] + slope * (i - start) - curve[i]
        if off * off > largest:
            rank, largest = i, off * off
    return rank, largest


@njit(cache=True, nogil=True)
def split_curve(curve, cut, pieces, least):
    """The ranks at which at most ``pieces`` pieces of ``curve`` (float64) start: sorted int64.

    First ``cut`` (unless 0 or past the end), then again and again the rank farthest from
    its piece's chord, of all pieces, with at least ``least`` points on either side.
    """
    starts = np.zeros(pieces + 1, np.int64)
    ranks, far = np.empty(pieces, np.int64), np.empty(pieces, np.float64)
    count = 1
    if 0 < cut < curve.size and pieces > 1:
        starts[1], count = cut, 2
    starts[count] = curve.size
    for j in range(count):
        ranks[j], far[j] = _farthest(curve, starts[j], starts[j + 1], least)
    while count < pieces:
        best = np.argmax(far[:count])
        if ranks[best] < 0:
            break
        for j in range(count, best, -1):  # piece best becomes best and best + 1
            starts[j + 1] = starts[j]
            if j < pieces:
                ranks[j], far[j] = ranks[j - 1], far[j - 1]
        starts[best + 1] = ranks[best]
        count += 1
        for j in range(best, best + 2):
            ranks[j], far[j] = _farthest(curve, starts[j], starts[j + 1], least)
    return starts[:count].copy()


@njit(cache=True, nogil=True)
def _roots(size, terms):
    """Square roots of the recurrence's factors for ``size`` points: (terms,), the first unused."""
    roots = np.ones(terms)
    for j in range(1, terms):
        above = j * j * (float(size) * size - j * j)
        roots[j] = math.sqrt(above / ((4.0 * j * j - 1.0) * (size - 1.0) * (size - 1.0)))
    return roots


@njit(cache=True, nogil=True, inline="always")
def _next(t, roots, j, now, before):
    """Polynomial j + 1 at t, from polynomials j and j - 1."""
    back = roots[j] * before if j else 0.0
    return (t * now - back) / roots[j + 1]


@njit(cache=True, nogil=True)
def fit_curve(curve, starts, terms):
    """The coefficients of all pieces one after the other, as float32.

    A piece of fewer points than ``terms`` (degree + 1) has as many as it has points.
    """
    k = curve.size
    coefs = np.empty(starts.size * terms, np.float32)
    count = 0
    for piece in range(starts.size):
        start = starts[piece]
        size = (starts[piece + 1] if piece + 1 < starts.size else k) - start
        used = min(terms, size)
        roots, sums = _roots(size, used), np.zeros(used)
        for i in range(size):
            t = 2.0 * i / (size - 1) - 1.0 if size > 1 else 0.0
            now, before = 1.0, 0.0
            for j in range(used):
                sums[j] += curve[start + i] * now
                if j + 1 < used:
                    now, before = _next(t, roots, j, now, before), now
        for j in range(used):
            coefs[count] = min(max(sums[j] / size, -LARGEST), LARGEST)
            count += 1
    return coefs[:count]


@njit(cache=True, nogil=True)
def evaluate_curve(coefs, starts, k, terms):
    """The fitted curve at ranks 0 to k - 1, as float32 within its finite range."""
    curve = np.empty(k, np.float32)
    first = 0
    for piece in range(starts.size):
        start = starts[piece]
        size = (starts[piece + 1] if piece + 1 < starts.size else k) - start
        used = min(terms, size)
        roots = _roots(size, used)
        for i in range(size):
            t = 2.0 * i / (size - 1) - 1.0 if size > 1 else 0.0
            now, before, total = 1.0, 0.0, 0.0
            for j in range(used):
                total += np.float64(coefs[first + j]) * now
                if j + 1 < used:
                    now, before = _next(t, roots, j, now, before), now
            curve[start + i] = min(max(total, -LARGEST), LARGEST)
        first += used
    return curve

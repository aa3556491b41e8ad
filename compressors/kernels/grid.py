"""Which grid makes positions cheap: rows and columns that differ in how much they send.

A side of the grid whose cells sent c_1, c_2, ... of k entries saves, against cells all
alike and with a Polya urn of ``prior`` a cell, the logarithm of a ratio of Gamma functions.
Only the number of times that a cell with c entries got one more is needed for that.
"""

import math

import numpy as np
from numba import njit

_LOG2E = 1 / math.log(2)
_STEPS = 1 << 16  # so that no n, however large, takes long
MOST = 64  # cells with more entries than that are counted as having so many


@njit(cache=True, nogil=True)
def divisors(n, most):
    """Up to ``most`` divisors of ``n`` from 4 to n / 4, those nearest to its root, best first."""
    found = np.zeros(most, np.int64)
    count = 0
    d = np.int64(math.sqrt(n))
    least = max(4, d - _STEPS)
    while d >= least and count < most:
        if n % d == 0:
            found[count] = n // d
            count += 1
            if d * d != n and count < most:
                found[count] = d
                count += 1
        d -= 1
    return found[:count]


@njit(cache=True, nogil=True)
def _saving(steps, cells, k, prior):
    """Bits that a side saves: ``steps[c]`` entries fell in a cell that had ``c`` before."""
    bits = k * math.log2(cells)
    for c in range(steps.size):
        if steps[c]:
            bits += steps[c] * math.log2(c + prior)
    whole = prior * cells
    return bits - (math.lgamma(whole + k) - math.lgamma(whole)) * _LOG2E


@njit(cache=True, nogil=True)
def _steps(indices, width, counts):
    """``steps`` of ``_saving`` for rows and for columns; ``counts`` is left as it came: zero."""
    down, across = np.zeros(MOST, np.int64), np.zeros(MOST, np.int64)
    filled, base = 0, np.int64(-width)
    for index in indices:
        if index >= base + width:
            base = index - index % width
            filled = 0
        down[min(filled, MOST - 1)] += 1
        filled += 1
        c = counts[index - base]
        across[min(c, MOST - 1)] += 1
        counts[index - base] = c + 1
    counts[:width] = 0
    return down, across


@njit(cache=True, nogil=True)
def _score(indices, n, width, counts):
    """Bits that both sides of a grid save, one prior for both."""
    down, across = _steps(indices, width, counts)
    k = indices.size
    return _saving(down, n // width, k, 1.0) + _saving(across, width, k, 1.0)


@njit(cache=True, nogil=True)
def best(indices, n, widths, priors, sample):
    """Which of ``widths`` and of ``priors`` (-1: columns alike) is best, and bits it saves.

    The first ``sample`` indices choose three widths, all indices one of these.
    """
    counts = np.zeros(widths.max(), np.int32)
    scores = np.empty(widths.size)
    for i in range(widths.size):
        scores[i] = _score(indices[:sample], n, widths[i], counts)
    at = np.argmax(scores)
    if sample < indices.size:
        most = -1e30
        for _ in range(min(3, widths.size)):
            i = np.argmax(scores)
            scores[i] = -1e30
            score = _score(indices, n, widths[i], counts)
            if score > most:
                at, most = i, score
    width = widths[at]
    down, across = _steps(indices, width, counts)
    rows, k = n // width, indices.size
    if rows > width:
        down, across, rows, width = across, down, width, rows
    of_rows = max(_saving(down, rows, k, 1.0), _saving(down, rows, k, 4.0))
    of_columns, chosen = 0.0, -1
    for j in range(priors.size):
        saved = _saving(across, width, k, priors[j])
        if saved > of_columns:
            of_columns, chosen = saved, j
    return at, chosen, of_rows + of_columns

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
_MOST = 64  # cells with more entries than that are counted as having so many
_LOGS = np.round(1000 * np.log2(np.arange(1, _MOST + 1))).astype(np.int64)
_FIRST = 128  # entries on which all widths are tried


@njit(cache=True, nogil=True)
def divisors(n, limit):
    """Up to ``limit`` divisors of ``n`` from 4 to n / 4, those nearest to its root, best first."""
    rows = np.zeros(limit, np.int64)
    count = 0
    d = np.int64(math.sqrt(n))
    least = max(4, d - _STEPS)
    while d >= least and count < limit:
        if n % d == 0:
            rows[count] = n // d
            count += 1
            if d * d != n and count < limit:
                rows[count] = d
                count += 1
        d -= 1
    return rows[:count]


@njit(cache=True, nogil=True)
def _log_gamma(x):
    """ln Gamma(x) of x >= 1/16, to a thousandth: Stirling's series of x + 2."""
    y = x + 2
    return (y - 0.5) * math.log(y) - y + 1 / (12 * y) - math.log(x * (x + 1))


@njit(cache=True, nogil=True)
def _spread(cells, k, prior):
    """What k entries cost where cells are all alike, less the urn's cost of numbering them."""
    total = prior * cells
    return k * math.log2(cells) - (_log_gamma(total + k) - _log_gamma(total)) * _LOG2E


@njit(cache=True, nogil=True)
def _saving(steps, cells, k, prior):
    """Bits that a side saves: ``steps[c]`` entries fell in a cell that had ``c`` before."""
    bits, left = _spread(cells, k, prior), k
    for c in range(_MOST):
        bits += steps[c] * math.log2(c + prior)
        left -= steps[c]
        if left == 0:
            break
    return bits


@njit(cache=True, nogil=True)
def _score(indices, width, counts):
    """About the bits that both sides save, prior 1; ``counts`` is left as it came: zero."""
    inverse, last, filled, thousandths = 1 / width, np.int64(-1), 0, np.int64(0)
    for index in indices:
        row = np.int64((index + 0.5) * inverse)
        column = index - row * width
        filled = filled + 1 if row == last else 0
        last = row
        c = counts[column]
        counts[column] = c + 1
        thousandths += _LOGS[min(c, _MOST - 1)] + _LOGS[min(filled, _MOST - 1)]
    counts[:width] = 0
    k = indices.size
    return thousandths * 0.001 + _spread(last + 1, k, 1.0) + _spread(width, k, 1.0)


@njit(cache=True, nogil=True)
def best_grid(indices, n, widths, priors):
    """Which of ``widths`` and of ``priors`` is best, and about the bits that it saves.

    The better half of the widths goes on to four times as many entries, until one is left.
    """
    counts, k, size = np.zeros(widths.max(), np.int32), indices.size, _FIRST
    alive, scores = np.arange(widths.size), np.empty(widths.size)
    while alive.size > 1:
        for i in range(alive.size):
            scores[i] = -_score(indices[:size], widths[alive[i]], counts)
        keep = (alive.size + 1) // 2 if size < k else 1
        alive = alive[np.argsort(scores[: alive.size])[:keep]]
        size *= 4
    at = alive[0]
    width = widths[at]
    rows = n // width
    down, across = np.zeros(_MOST, np.int64), np.zeros(_MOST, np.int64)  # see ``_saving``
    inverse, last, filled = 1 / width, np.int64(-1), 0
    for index in indices:
        row = np.int64((index + 0.5) * inverse)
        column = index - row * width
        filled = filled + 1 if row == last else 0
        last = row
        down[min(filled, _MOST - 1)] += 1
        c = counts[column]
        counts[column] = c + 1
        across[min(c, _MOST - 1)] += 1
    if rows > width:
        down, across, rows, width = across, down, width, rows
    chosen, largest = 0, -1e30
    for j in range(priors.size):
        saved = _saving(across, width, k, priors[j])
        if saved > largest:
            chosen, largest = j, saved
    return at, chosen, largest + max(_saving(down, rows, k, 1.0), _saving(down, rows, k, 4.0))


@njit(cache=True, nogil=True)
def turn(indices, rows, width):
    """Sorted indices of the grid (rows, width), read column by column: a counting sort."""
    inverse = 1 / width
    columns = np.empty(indices.size, np.int32)
    ends = np.zeros(width + 1, np.int64)
    for i in range(indices.size):
        column = indices[i] - np.int64((indices[i] + 0.5) * inverse) * width
        columns[i] = column
        ends[column + 1] += 1
    for column in range(width):
        ends[column + 1] += ends[column]
    turned = np.empty(indices.size, np.int64)
    for i in range(indices.size):
        column = np.int64(columns[i])
        turned[ends[column]] = column * rows + (indices[i] - column) // width
        ends[column] += 1
    return turned

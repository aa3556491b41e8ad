"""Curves through sorted values, by sums and products in a fixed order: the same on every machine.

The least-squares polynomial of a piece with N evenly spaced points is a sum of polynomials
that are orthonormal on those points (Gram's; t from -1 to 1, mean of squares 1). They
follow from a recurrence, so no system of equations is solved and no library is asked. A
coefficient is a mean, never beyond the largest magnitude fitted.

A term of two exponentials is an amplitude times e^(rate x), x from 0 to 1 over the ranks; for a
positive rate e^(rate (x - 1)), so that the amplitude is always the term at its larger end and
nothing overflows. Its powers are made by multiplication alone.
"""

import math

import numpy as np
from numba import njit

LARGEST = float(np.finfo(np.float32).max)
_POINTS = 2048  # of a longer curve as many evenly spaced ranks are fitted
_GRID = np.array([0.0] + [sign * 4.0**e for e in range(-1, 6) for sign in (-1, 1)])
_STEPS = np.array([2.0, 1.4, 1.2, 1.1, 1.05, 1.02, 1.01])
_STEEPEST = 4096.0
_PARALLEL = 1e-9  # two terms whose directions differ less count as one


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


@njit(cache=True, nogil=True)
def _decay(z):
    """e^-z for z >= 0, by halving, a power series, and squaring."""
    if z > 800.0:
        return 0.0
    halvings = 0
    while z > 0.5:
        z *= 0.5
        halvings += 1
    term, total = 1.0, 1.0
    for j in range(1, 20):
        term *= -z / j
        total += term
    for _ in range(halvings):
        total *= total
    return total


@njit(cache=True, nogil=True)
def _shape(rate, x, out):
    """e^(rate x), or e^(rate (x - 1)) for a positive rate, at each of ``x``."""
    for i in range(x.size):
        out[i] = _decay(-rate * x[i]) if rate <= 0 else _decay(rate * (1.0 - x[i]))


@njit(cache=True, nogil=True)
def _amplitudes(y, u, v):
    """The least-squares amplitudes of shapes u and v in y, and the squared error left."""
    uu = uv = vv = uy = vy = 0.0
    for i in range(y.size):
        uu += u[i] * u[i]
        uv += u[i] * v[i]
        vv += v[i] * v[i]
        uy += u[i] * y[i]
        vy += v[i] * y[i]
    det = uu * vv - uv * uv
    if det > _PARALLEL * uu * vv:
        a, c = (uy * vv - vy * uv) / det, (vy * uu - uy * uv) / det
    else:
        a, c = uy / max(uu, 1e-300), 0.0
    error = 0.0
    for i in range(y.size):
        off = a * u[i] + c * v[i] - y[i]
        error += off * off
    return a, c, error


@njit(cache=True, nogil=True)
def fit_exponentials(curve):
    """Amplitude, rate, amplitude, rate (4,) as float64, for a ``curve`` (float64) of k > 1.

    The best two rates of a grid; then one moves at a time, by smaller and smaller factors while
    that helps.
    """
    k = curve.size
    size = min(k, _POINTS)
    ranks = np.arange(size) * (k - 1) // (size - 1)
    y, x = curve[ranks], ranks / (k - 1)
    top = max(np.abs(y).max(), 1e-300)
    y = y / top
    shapes = np.empty((_GRID.size, size))
    for g in range(_GRID.size):
        _shape(_GRID[g], x, shapes[g])
    best, first, second = np.inf, 0, 0
    for g in range(_GRID.size):
        for other in range(g):
            error = _amplitudes(y, shapes[g], shapes[other])[2]
            if error < best:
                best, first, second = error, g, other
    rates, candidates = np.array([_GRID[first], _GRID[second]]), np.empty(size)
    shapes[0], shapes[1] = shapes[first].copy(), shapes[second].copy()
    for step in _STEPS:
        for turn in range(40):
            moved = turn % 2
            rate = rates[moved] * (step if turn % 4 < 2 else 1.0 / step)
            if abs(rate) > _STEEPEST:
                continue
            _shape(rate, x, candidates)
            error = _amplitudes(y, candidates, shapes[1 - moved])[2]
            if error < best:
                best, rates[moved] = error, rate
                shapes[moved] = candidates
    rates = rates.astype(np.float32).astype(np.float64)  # as they will travel
    for term in range(2):
        _shape(rates[term], x, shapes[term])
    a, c, _ = _amplitudes(y, shapes[0], shapes[1])
    return np.array([a * top, rates[0], c * top, rates[1]])


@njit(cache=True, nogil=True)
def evaluate_exponentials(parameters, k):
    """The two terms' sum at ranks 0 to k - 1 (k > 1), float64."""
    total = np.zeros(k)
    for one in range(2):
        amplitude, rate = parameters[2 * one], parameters[2 * one + 1]
        base, value = _decay(abs(rate) / (k - 1)), amplitude
        for i in range(k):
            total[i if rate <= 0 else k - 1 - i] += value
            value *= base
    return total

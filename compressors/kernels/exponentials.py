"""Two exponentials through a falling curve: a search that needs nothing but sums and products.

A term is an amplitude times e^(rate x), x from 0 to 1 over the ranks; for a positive rate
e^(rate (x - 1)), so that the amplitude is always the term at its larger end and nothing
overflows. Its powers are made by multiplication alone: the same on every machine.
"""

import numpy as np
from numba import njit

_POINTS = 2048  # of a longer curve as many evenly spaced ranks are fitted
_GRID = np.array([0.0] + [sign * 4.0**e for e in range(-1, 6) for sign in (-1, 1)])
_STEPS = np.array([2.0, 1.4, 1.2, 1.1, 1.05, 1.02, 1.01])
_STEEPEST = 4096.0
_PARALLEL = 1e-9  # two terms whose directions differ less count as one


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

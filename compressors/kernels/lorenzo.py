"""Predict an entry from its decoded neighbours and round what is left: numba, both ways.

The Lorenzo predictor of a matrix: left plus upper minus upper left, zeros outside. Symbol 0 says
that an entry travels as it is; symbol s is s - ``middle`` steps off the prediction.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, inline="always")
def _predicted(done, i, j):
    left = np.float64(done[i, j - 1]) if j else 0.0
    upper = np.float64(done[i - 1, j]) if i else 0.0
    corner = np.float64(done[i - 1, j - 1]) if i and j else 0.0
    return left + upper - corner


@njit(cache=True, nogil=True)
def encode(x, bound, middle, codes, done):
    """Fills symbols and what will be decoded; how many entries travel as they are.

    Args:
        x: float32 (rows, columns).
        bound: the largest error, float64; a step is twice that.
        middle: the symbol of no step.
        codes: int16 (rows, columns), filled.
        done: float32 (rows, columns), filled.
    """
    raw = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            value = np.float64(x[i, j])
            guess = _predicted(done, i, j)
            steps = np.rint((value - guess) / (2.0 * bound)) if bound > 0.0 else 0.0
            codes[i, j] = 0
            done[i, j] = x[i, j]
            if abs(steps) < middle:
                near = np.float32(guess + 2.0 * bound * steps)
                if abs(np.float64(near) - value) <= bound:
                    codes[i, j] = middle + np.int64(steps)
                    done[i, j] = near
            raw += int(codes[i, j] == 0)
    return raw


@njit(cache=True, nogil=True)
def decode(codes, raw, bound, middle, done):
    """Fills ``done`` (rows, columns) from symbols and the entries that travel as they are."""
    used = 0
    for i in range(done.shape[0]):
        for j in range(done.shape[1]):
            if codes[i, j] == 0:
                done[i, j] = raw[used]
                used += 1
            else:
                guess = _predicted(done, i, j)
                done[i, j] = np.float32(guess + 2.0 * bound * (np.int64(codes[i, j]) - middle))

"""Range asymmetric numeral systems (rANS; Duda 2009, arXiv 0902.0271) with a static model.

A model gives every symbol a share of 2**bits. A state x, between 2**(bits + 8) and
2**(bits + 8 + word), holds what is written: a symbol of share f that starts at c makes it
(x // f << bits) + x % f + c. Before that a word goes out where it would grow too large: of 16
bits, or of 32 where bits is above 16, so that one is always enough. The writer goes from the
last symbol to the first, so that the reader goes forward. Symbol i uses state i % ways: four
states let four symbols be worked on at the same time.
"""

import numpy as np
from numba import njit

from compressors.kernels.pack import peek

SLACK = 8  # bits between a total and the least state: loses 0.04 % at most
_1 = np.uint64(1)
_64 = np.uint64(64)


@njit(cache=True, nogil=True)
def quantised(counts, bits):
    """Shares (int64, each at least 1, together 2**bits) for ``counts`` (int64, each at least 1).

    Rounded down, then the largest remainders get what is left. Where the least share of one
    has taken too much, the largest shares give it back, a sixteenth of each in turn.
    """
    total = counts.sum()
    shares = np.empty(counts.size, np.int64)
    left = np.empty(counts.size, np.int64)
    for i in range(counts.size):
        exact = counts[i] << bits
        shares[i] = max(1, exact // total)
        left[i] = exact - shares[i] * total
    missing = (np.int64(1) << bits) - shares.sum()
    if missing > 0:
        for i in np.argsort(-left, kind="mergesort")[:missing]:
            shares[i] += 1
    order = np.argsort(-shares, kind="mergesort")
    while missing < 0:
        for i in order:
            taken = min(-missing, shares[i] - 1, max(1, shares[i] >> 4))
            shares[i] -= taken
            missing += taken
    return shares


@njit(cache=True, nogil=True, inline="always")
def _push(x, number, shares, starts, bits, word, stack, filled):
    """The state after ``number``, and how many words there are now."""
    share = shares[number]
    over = np.uint64(x >= (share << (word + np.uint64(SLACK))))
    stack[filled] = x & ((_1 << word) - _1)
    x >>= word * over
    q = x // share
    return (q << bits) + (x - q * share) + starts[number], filled + np.int64(over)


@njit(cache=True, nogil=True)
def encode_rans(numbers, shares, starts, bits, word, states, stack):
    """Codes ``numbers`` from the last to the first; returns how many words are on ``stack``.

    ``shares`` and ``starts`` (uint64) by number; ``states`` (one or four, uint64) hold the
    states at the end; ``stack`` (numbers.size + 1, uint32) what went out, the last word first
    to be read.
    """
    filled, i, ways = 0, numbers.size, states.size
    size, step = np.uint64(bits), np.uint64(word)
    states[:] = _1 << np.uint64(bits + SLACK)
    while i > 0 and (ways == 1 or i % 4):
        i -= 1
        x, filled = _push(states[i % ways], numbers[i], shares, starts, size, step, stack, filled)
        states[i % ways] = x
    if i == 0:
        return filled
    a, b, c, d = states[0], states[1], states[2], states[3]
    while i > 0:
        i -= 4
        d, filled = _push(d, numbers[i + 3], shares, starts, size, step, stack, filled)
        c, filled = _push(c, numbers[i + 2], shares, starts, size, step, stack, filled)
        b, filled = _push(b, numbers[i + 1], shares, starts, size, step, stack, filled)
        a, filled = _push(a, numbers[i], shares, starts, size, step, stack, filled)
    states[0], states[1], states[2], states[3] = a, b, c, d
    return filled


@njit(cache=True, nogil=True)
def slots(shares):
    """Which share each of the slots belongs to: its number among the shares, as uint16."""
    owners = np.empty(shares.sum(), np.uint16)
    start = 0
    for i in range(shares.size):
        owners[start : start + shares[i]] = i
        start += shares[i]
    return owners


@njit(cache=True, nogil=True, inline="always")
def _pop(x, owners, shares, starts, bits, word, window):
    """Which share is next, the state before it, what is left of the window, and bits taken."""
    slot = x & ((_1 << bits) - _1)
    owner = owners[slot]
    x = shares[owner] * (x >> bits) + slot - starts[owner]
    under = word * np.uint64(x < (_1 << (bits + np.uint64(SLACK))))
    x = (x << under) | ((window >> (_64 - word)) & ((_1 << under) - _1))
    return owner, x, window << under, under


@njit(cache=True, nogil=True)
def decode_rans(words, position, end, model, symbols, bits, word, states, out):
    """Fills ``out`` (unsigned) with ``symbols`` of the shares; returns the bit after the last.

    ``model`` is (owners, shares, starts). -1 where words run past bit ``end``; ``states`` are
    then, and otherwise, what the reader ended with.
    """
    owners, shares, starts = model
    size, step = np.uint64(bits), np.uint64(word)
    i, ways = 0, states.size
    if ways == 4:
        a, b, c, d = states[0], states[1], states[2], states[3]
        while i + 4 <= out.size:
            window = peek(words, position)
            o0, a, window, t0 = _pop(a, owners, shares, starts, size, step, window)
            o1, b, window, t1 = _pop(b, owners, shares, starts, size, step, window)
            position += np.int64(t0 + t1)
            if position > end:
                return np.int64(-1)
            window = peek(words, position)
            o2, c, window, t2 = _pop(c, owners, shares, starts, size, step, window)
            o3, d, window, t3 = _pop(d, owners, shares, starts, size, step, window)
            out[i] = symbols[o0]
            out[i + 1] = symbols[o1]
            out[i + 2] = symbols[o2]
            out[i + 3] = symbols[o3]
            i += 4
            position += np.int64(t2 + t3)
            if position > end:
                return np.int64(-1)
        states[0], states[1], states[2], states[3] = a, b, c, d
    while i < out.size:
        window = peek(words, position)
        o0, x, _, t0 = _pop(states[i % ways], owners, shares, starts, size, step, window)
        states[i % ways] = x
        out[i] = symbols[o0]
        i += 1
        position += np.int64(t0)
        if position > end:
            return np.int64(-1)
    return np.int64(position)

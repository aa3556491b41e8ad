"""Sorted positions as rows and columns: how many a row, then where, by learnt column weights.

Positions are seen as a grid of rows of ``width`` entries. A row's number of sent entries
is coded in unary-like bins whose chances are learnt. Its ``m`` columns follow in
ascending order: with weights w_c, the first of m independent draws from w lies below
column c with chance 1 - (1 - W_c / W)**m, W_c being the weight before c; that is the
share it gets, in integers (``kernels.race``). A column grows heavier as soon as an entry
was sent there (the Polya urn of a Dirichlet prior; ``kernels.weights``).

Chances come from integer arithmetic alone: floating point only guesses in the reader,
and every guess is checked.
"""

import numpy as np
from numba import njit

from compressors.kernels.context import counts, race, weights
from compressors.kernels.context.rangecoder import (
    finish_read,
    finish_write,
    peek_part,
    peek_share,
    read_part,
    read_share,
    start_read,
    start_write,
    write_part,
    write_share,
)

_ALL = np.uint64(race.ONE)
_POWER = np.uint64(race.POWER)


@njit(cache=True, nogil=True, inline="always")
def _shares(start, end, total, scale, c, zoom):
    """Shares [below, above) of masses [start, end) of ``total``."""
    below = race.before(np.uint64(start), scale, c, zoom)
    above = _ALL
    if end < total:
        above = race.before(np.uint64(end), scale, c, zoom)
    return below, above


@njit(cache=True, nogil=True, inline="always")
def _write_column(state, words, start, end, total, m):
    """Writes that the first of ``m`` draws fell on masses [start, end) of ``total``."""
    if m == 1:
        low, size = np.uint64(start), np.uint64(end - start)
        return write_share(state, words, low, size, np.uint64(total))
    c, zoom = race.class_of(m)
    below, above = _shares(start, end, total, race.scale_of(total), c, zoom)
    return write_part(state, words, below, above - below, _POWER)


@njit(cache=True, nogil=True, inline="always")
def _read_column(state, words, bits_end, urn, span, past, total, m):
    """The column of the first of ``m`` draws from the mass behind ``past``, the mass up to its
    end, and the state behind it.
    """
    left = total - past
    if m == 1:
        mass = past + np.int64(peek_share(state, np.uint64(left)))
        column = weights.find(urn, span, mass, total)
        start, end = weights.place(urn, span, column)
        low, size = np.uint64(start - past), np.uint64(end - start)
        return column, end, read_share(state, words, bits_end, low, size, np.uint64(left))
    c, zoom = race.class_of(m)
    scale = race.scale_of(left)
    share = peek_part(state, _POWER)
    column = weights.find(urn, span, past + race.guess(share, left, c, zoom), total)
    start, end = weights.place(urn, span, column)
    below, above = _shares(start - past, end - past, left, scale, c, zoom)
    while share < below or share >= above:
        column += 1 if share >= above else -1
        start, end = weights.place(urn, span, column)
        below, above = _shares(start - past, end - past, left, scale, c, zoom)
    return column, end, read_part(state, words, bits_end, below, above - below, _POWER)


@njit(cache=True, nogil=True)
def encode_grid(indices, rows, width, first, gain, words, position):
    """Writes sorted ``indices`` (int64) of the grid (rows, width); the bit after the last."""
    state, k = start_write(position), indices.size
    shift, frequencies = counts.table(k / rows)
    urn, span = weights.make_urn(width, first)
    total, size = np.int64(width * first), min(weights.SIZE, span)
    done, base = 0, 0
    for row in range(rows):
        if done == k:
            break
        m = 0
        while done + m < k and indices[done + m] < base + width:
            m += 1
        if row < rows - 1:
            state = counts.write_count(state, words, m, min(width, k - done), shift, frequencies)
        past = np.int64(0)
        while m:
            column = indices[done] - base
            start, end = weights.place(urn, span, column)
            state = _write_column(state, words, start - past, end - past, total - past, m)
            past = end
            if total < weights.FULL:
                weights.add_weight(urn, span, column, gain, size)
                total, past = total + gain, past + gain
            done += 1
            m -= 1
        base += width
    return finish_write(state, words)


@njit(cache=True, nogil=True)
def decode_grid(words, position, bits_end, rows, width, first, gain, indices):
    """Fills ``indices`` (int64); the bit after the last, or -1 where bits are wrong."""
    state, k = start_read(words, position, bits_end), indices.size
    shift, frequencies = counts.table(k / rows)
    urn, span = weights.make_urn(width, first)
    total, size = np.int64(width * first), min(weights.SIZE, span)
    done, base, again, wrong = 0, 0, 0, False
    for row in range(rows):
        if done == k or wrong:
            break
        m = k - done
        if row < rows - 1:
            longest = min(width, m)
            m, state = counts.read_count(state, words, bits_end, longest, shift, frequencies)
        wrong = m > width or m > k - done or np.int64(state[2]) > bits_end
        if m and done >= again:
            weights.guide(urn, span, total)
            again = done + 8 + (done >> 3)
        past = np.int64(0)
        while m and not wrong:
            column, past, state = _read_column(state, words, bits_end, urn, span, past, total, m)
            wrong = column + m > width
            if total < weights.FULL:
                weights.add_weight(urn, span, column, gain, size)
                total, past = total + gain, past + gain
            indices[done] = base + column
            done += 1
            m -= 1
        base += width
    return np.int64(-1) if wrong else finish_read(state, bits_end)

"""Sorted positions as rows and columns: how many a row, then where, by learnt column weights.

Positions are seen as a grid of rows of ``width`` entries. A row's number of sent entries
is coded in unary-like bins whose chances are learnt. Its ``m`` columns follow in
ascending order: with weights w_c, the first of m independent draws from w lies below
column c with chance 1 - (1 - W_c / W)**m, W_c being the weight before c; that is the
share it gets, in integers (``kernels.race``). Weights grow where entries were sent in
rows before (the Polya urn of a Dirichlet prior; ``kernels.weights``). Without weights
(``gain`` 0) all columns count alike.

Chances come from integer arithmetic alone: floating point only guesses in the reader,
and every guess is checked.
"""

import numpy as np
from numba import njit

from compressors.kernels import counts, race, weights
from compressors.kernels.race import HINTS, TABLE
from compressors.kernels.rangecoder import (
    finish_read,
    finish_write,
    peek_share,
    read_share,
    start_read,
    start_write,
    write_share,
)

_1 = np.uint64(1)
_CELLS = 1 << 14  # without weights: cells that a row is cut into
_WIDE = 1 << 32


@njit(cache=True, nogil=True)
def _write_mass(state, words, start, size, total, m):
    """Writes that the first of ``m`` draws fell on masses [start, start + size) of ``total``."""
    if m == 1:
        return write_share(state, words, np.uint64(start), np.uint64(size), np.uint64(total))
    c, zoom = race.class_of(m)
    row, scale = TABLE[c], race.scale_of(total)
    below = race.before(np.uint64(start), scale, row, zoom)
    above = race.ONE
    if start + size < total:
        above = race.before(np.uint64(start + size), scale, row, zoom)
    return write_share(state, words, below, above - below, race.ONE)


@njit(cache=True, nogil=True, inline="always")
def _within(share, start, size, total, scale, row, zoom):
    """Shares [below, above) of masses [start, start + size), and whether ``share`` is there."""
    below = race.before(np.uint64(start), scale, row, zoom)
    above = race.ONE
    if start + size < total:
        above = race.before(np.uint64(start + size), scale, row, zoom)
    return below, above, below <= share and share < above


# --- columns of a row ------------------------------------------------------------------------


@njit(cache=True, nogil=True, inline="always")
def _cells(rest, m):
    """Places for the first of ``m`` entries among ``rest``; bits of a place in its cell; cells."""
    places = rest - m + 1
    most = _WIDE if m == 1 else _CELLS
    shift = 0
    while places >> shift > most:
        shift += 1
    return places, shift, ((places - 1) >> shift) + 1


@njit(cache=True, nogil=True)
def _write_plain(state, words, gap, rest, m):
    """Writes the distance to the first of ``m`` entries among ``rest``, all alike."""
    places, shift, cells = _cells(rest, m)
    cell = gap >> shift
    state = _write_mass(state, words, cell, 1, cells, m)
    if shift:
        size = min(1 << shift, places - (cell << shift))
        state = write_share(state, words, np.uint64(gap - (cell << shift)), _1, np.uint64(size))
    return state


@njit(cache=True, nogil=True)
def _read_cell(state, words, end, cells, m):
    if m == 1:
        share = peek_share(state, np.uint64(cells))
        state = read_share(state, words, end, share, _1, np.uint64(cells))
        return np.int64(share), state
    c, zoom = race.class_of(m)
    row, scale = TABLE[c], race.scale_of(cells)
    share = peek_share(state, race.ONE)
    cell = race.guess(share, cells, row, HINTS[c], zoom)
    below, above, hit = _within(share, cell, 1, cells, scale, row, zoom)
    if not hit:
        cell = race.invert(share, cells, scale, row, zoom)
        below, above, hit = _within(share, cell, 1, cells, scale, row, zoom)
    state = read_share(state, words, end, below, above - below, race.ONE)
    return cell, state


@njit(cache=True, nogil=True)
def _read_plain(state, words, end, rest, m):
    places, shift, cells = _cells(rest, m)
    cell, state = _read_cell(state, words, end, cells, m)
    gap = cell << shift
    if shift:
        size = np.uint64(min(1 << shift, places - gap))
        low = peek_share(state, size)
        state = read_share(state, words, end, low, _1, size)
        gap += np.int64(low)
    return gap, state


@njit(cache=True, nogil=True)
def _read_weighted(state, words, end, urn, past, total, m):
    """The next column behind the weight ``past`` of ``total``, and the weight up to its end."""
    _, sums, slots, facts = urn
    rest = total - past
    if m == 1:
        share = peek_share(state, np.uint64(rest))
        column = weights.find(sums, slots, facts[0], past + np.int64(share))
        start, size = sums[column], sums[column + 1] - sums[column]
        low = np.uint64(start - past)
        state = read_share(state, words, end, low, np.uint64(size), np.uint64(rest))
        return column, start + size, state
    c, zoom = race.class_of(m)
    row, scale = TABLE[c], race.scale_of(rest)
    share = peek_share(state, race.ONE)
    mass = race.guess(share, rest, row, HINTS[c], zoom)
    column = weights.find(sums, slots, facts[0], past + mass)
    start, size = sums[column], sums[column + 1] - sums[column]
    below, above, hit = _within(share, start - past, size, rest, scale, row, zoom)
    if not hit:
        mass = race.invert(share, rest, scale, row, zoom)
        column = weights.find(sums, slots, facts[0], past + mass)
        start, size = sums[column], sums[column + 1] - sums[column]
        below, above, hit = _within(share, start - past, size, rest, scale, row, zoom)
    state = read_share(state, words, end, below, above - below, race.ONE)
    return column, start + size, state


@njit(cache=True, nogil=True)
def encode(indices, n, width, first, gain, words, position):
    """Writes sorted ``indices`` (int64) of a scan of rows; returns the bit after the last."""
    state = start_write(position)
    k, rows = indices.size, (n - 1) // width + 1
    mean = k / n * width
    shift = counts.shift_of(mean)
    chances, seen = counts.bins(mean / (1 << shift))
    held, sums, slots, facts = weights.make(width if gain else 1, first)
    done = 0
    for row in range(rows):
        if done == k:
            break
        base = row * width
        here = min(width, n - base)
        m = 0
        while done + m < k and indices[done + m] < base + here:
            m += 1
        if row < rows - 1:
            state = counts.write_count(state, words, m, min(here, k - done), shift, chances, seen)
        if facts[1] >= facts[2]:
            weights.refresh(held, sums, slots, facts)
        total, past, column = sums[-1], np.int64(0), np.int64(0)
        while m:
            at = indices[done] - base
            if gain:
                size = sums[at + 1] - sums[at]
                state = _write_mass(state, words, sums[at] - past, size, total - past, m)
                past = sums[at + 1]
                held[at] += gain
                facts[1] += 1
            else:
                state = _write_plain(state, words, at - column, here - column, m)
            column = at + 1
            done += 1
            m -= 1
    return finish_write(state, words)


@njit(cache=True, nogil=True)
def decode(words, position, end, n, width, first, gain, indices):
    """Fills ``indices`` (int64); returns the bit after the last, or -1 where bits are wrong."""
    state = start_read(words, position, end)
    k, rows = indices.size, (n - 1) // width + 1
    mean = k / n * width
    shift = counts.shift_of(mean)
    chances, seen = counts.bins(mean / (1 << shift))
    urn = weights.make(width if gain else 1, first)
    held, sums, slots, facts = urn
    done = 0
    for row in range(rows):
        if done == k:
            break
        if np.int64(state[2]) > end:
            return -1  # all that follows would be made up
        base = row * width
        here = min(width, n - base)
        m = k - done
        if row < rows - 1:
            m, state = counts.read_count(state, words, end, min(here, m), shift, chances, seen)
        if m > here or m > k - done:
            return -1
        if facts[1] >= facts[2]:
            weights.refresh(held, sums, slots, facts)
        total, past, column = sums[-1], np.int64(0), np.int64(0)
        while m:
            if gain:
                column, past, state = _read_weighted(state, words, end, urn, past, total, m)
                if column + m > here:
                    return -1
                held[column] += gain
                facts[1] += 1
            else:
                gap, state = _read_plain(state, words, end, here - column, m)
                column += gap
            indices[done] = base + column
            column += 1
            done += 1
            m -= 1
    return finish_read(state, end)

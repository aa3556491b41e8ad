"""Weights of columns: running sums with quick look-ups, made again now and then.

Entries are counted at once and enter the sums when these are made again: after a sixteenth
more entries than were counted the time before, and at least one for every 64 columns, so
that the pass over all columns costs little an entry. A tree of sums (Fenwick 1994) is never
late, but its ten dependent steps for a thousand columns cost more than all else in the reader.
"""

import numpy as np
from numba import njit

SLOTS = 512
_FULL = 1 << 21  # weights stop growing at this sum


@njit(cache=True, nogil=True)
def make(width, first):
    """Columns that all weigh ``first``: (their weights, sums before each, look-up, facts).

    facts: bits of a mass in its slot; entries counted; entries at which to make sums again.
    """
    held = np.full(width, first, np.int64)
    sums = np.empty(width + 1, np.int64)
    slots = np.empty(SLOTS + 1, np.int64)
    facts = np.zeros(3, np.int64)
    refresh(held, sums, slots, facts)
    return held, sums, slots, facts


@njit(cache=True, nogil=True)
def refresh(held, sums, slots, facts):
    """Makes the sums and the look-up from the weights."""
    width = held.size
    total = np.int64(0)
    for i in range(width):
        sums[i] = total
        total += held[i]
    sums[width] = total
    shift = 0
    while total >> shift > SLOTS:
        shift += 1
    slot = 0
    for i in range(width):
        while slot << shift < sums[i + 1]:
            slots[slot] = i
            slot += 1
    facts[0] = shift
    facts[2] = facts[1] + max(width >> 6, facts[1] >> 4, 4)
    if total >= _FULL:
        facts[2] = 1 << 62


@njit(cache=True, nogil=True, inline="always")
def find(sums, slots, shift, mass):
    """The column in which ``mass`` (below the sum of all) lies."""
    column = slots[mass >> shift]
    while sums[column + 1] <= mass:
        column += 1
    return column

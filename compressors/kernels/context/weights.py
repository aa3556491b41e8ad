"""Weights of columns in blocks of sums: an entry counts at once, wherever it falls.

Kept are the weight of every column, the sum before it in its block of 16 and the sum before
every block. The sum before a column is then one addition; an entry more changes the sums
behind it in its block and the blocks behind that, two loops that compile to vectors. A
reader that looks a mass up begins at the block that a guide names, which is made again
now and then, and goes on from there where weights have grown since: a tree of sums
(Fenwick 1994) needs ten dependent steps for a thousand columns.

All of that is one int32 array, an urn, with ``span`` the columns rounded up to whole blocks:
weights from 0, sums in blocks from ``span``, sums before blocks from 2 ``span``, and the guide
at the end. Several arrays in a tuple would cost numba more in counted references than the
work itself.
"""

import numpy as np
from numba import njit

_BITS = 4
SIZE = 1 << _BITS
_SLOTS = 256  # of the guide
_ONE = np.uint64(_SLOTS << 32)
_32 = np.uint64(32)
_PAST = 1 << 30  # the sum before what is not there
FULL = 1 << 21  # weights stop growing at this sum


@njit(cache=True, nogil=True)
def make_urn(width, first):
    """An urn of columns that all weigh ``first``, and its span."""
    count = (width + SIZE - 1) >> _BITS
    span = count << _BITS
    urn = np.full(2 * span + count + 1 + _SLOTS, _PAST, np.int32)
    for column in range(width):
        urn[column] = first
        urn[span + column] = (column & (SIZE - 1)) * first
    for block in range(count):
        urn[2 * span + block] = block * SIZE * first
    return urn, span


@njit(cache=True, nogil=True, inline="always")
def place(urn, span, column):
    """The sum before ``column``, and the sum behind it."""
    before = np.int64(urn[2 * span + (column >> _BITS)]) + np.int64(urn[span + column])
    return before, before + np.int64(urn[column])


@njit(cache=True, nogil=True, inline="always")
def _raise(urn, base, at, size, gain):
    """Adds ``gain`` to those of ``size`` sums from ``base`` on that come after number ``at``."""
    for j in range(size):
        urn[np.uint64(base) + np.uint64(j)] += gain if np.int32(j) > at else np.int32(0)


@njit(cache=True, nogil=True, inline="always")
def add_weight(urn, span, column, gain, size):
    """Makes ``column`` heavier by ``gain``; ``size`` is ``SIZE``, in a variable: loops of a
    constant length are unrolled before they can become vectors.
    """
    urn[column] += np.int32(gain)
    block, count = column >> _BITS, span >> _BITS
    _raise(urn, span + (block << _BITS), np.int32(column & (SIZE - 1)), size, np.int32(gain))
    _raise(urn, 2 * span, np.int32(block), count, np.int32(gain))


@njit(cache=True, nogil=True)
def guide(urn, span, total):
    """Makes the guide: the block in which the middle of each of equal shares lies."""
    block, blocks = 0, 2 * span
    slots = blocks + (span >> _BITS) + 1
    step = total / _SLOTS
    for i in range(_SLOTS):
        mass = np.int64((i + 0.5) * step)
        while urn[blocks + block + 1] <= mass:
            block += 1
        urn[slots + i] = block


@njit(cache=True, nogil=True, inline="always")
def find(urn, span, mass, total):
    """The column in which ``mass`` (below ``total``, the sum of all) lies."""
    blocks = 2 * span
    slot = np.int64((np.uint64(mass) * (_ONE // np.uint64(total))) >> _32)
    block = np.int64(urn[blocks + (span >> _BITS) + 1 + slot])
    while urn[blocks + block] > mass:
        block -= 1
    while urn[blocks + block + 1] <= mass:
        block += 1
    target = np.int32(np.int32(mass) - urn[blocks + block])
    base, column = np.uint64(span + (block << _BITS)), np.uint64(0)
    for j in range(1, SIZE):
        column += np.uint64(urn[base + np.uint64(j)] <= target)
    return (block << _BITS) + np.int64(column)

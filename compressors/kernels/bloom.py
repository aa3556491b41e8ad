"""Bloom filters over 0..n-1: build, query of everything, and what collides (DeepReduce).

Bit j of a filter is bit ``63 - j % 64`` of word ``j // 64``, as in a stream. The h places of
an index come from two words of counter noise, a and b (b odd): place j is the high part of
``(a + j b mod 2**32) * m`` (double hashing, Kirsch and Mitzenmacher 2006). A query asks one
place of all entries of a chunk, lists those that are set without a branch on data, and asks
the next place of those alone: about two places an entry in a filter that is half full.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from compressors.kernels.compact import CHUNK, grown
from compressors.kernels.noise import draw, key

_1, _6, _63 = np.uint64(1), np.uint64(6), np.uint64(63)
_32 = np.uint64(32)


class Hashes(NamedTuple):
    """What an index's places follow from: two keys of noise, filter bits ``m``, ``h`` places."""

    mul_a: np.uint32
    add_a: np.uint32
    mul_b: np.uint32
    add_b: np.uint32
    m: int
    h: int

    @classmethod
    def of(cls, seed_a: int, seed_b: int, m: int, h: int) -> "Hashes":
        """The hashes of two seeds."""
        return cls(*key(seed_a), *key(seed_b), m, h)


@njit(cache=True, nogil=True, inline="always")
def _second(hashes, index):
    return draw(hashes.mul_b, hashes.add_b, index) | np.uint32(1)


@njit(cache=True, nogil=True, inline="always")
def _place(a, m):
    return (np.uint64(a) * np.uint64(m)) >> _32


@njit(cache=True, nogil=True)
def build_filter(indices, hashes, words):
    """Sets the places of ``indices`` in ``words`` (zeros, ceil(m / 64))."""
    for index in indices:
        a, b = draw(hashes.mul_a, hashes.add_a, index), _second(hashes, index)
        for _ in range(hashes.h):
            bit = _place(a, hashes.m)
            words[bit >> _6] |= _1 << (_63 - (bit & _63))
            a = np.uint32(a + b)


@njit(cache=True, nogil=True)
def _ask(words, m, a, b, live, count):
    """Keeps of the first ``count`` of ``live`` those whose place is set; moves them on by b."""
    members = np.uint64(0)
    for t in range(np.uint64(count)):
        i = live[t]
        key = a[i]
        live[members] = i
        bit = _place(key, m)
        members += (words[bit >> _6] >> (_63 - (bit & _63))) & _1
        a[i] = np.uint32(key + b[i])
    return np.int64(members)


@njit(cache=True, nogil=True)
def positives(words, n, hashes, expected):
    """Sorted int64 indices below ``n`` whose places are all set; about ``expected`` of them."""
    candidates = np.empty(expected + CHUNK, np.int64)
    a, b = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    live = np.empty(CHUNK, np.uint32)
    count = 0
    for start in range(0, n, CHUNK):
        if count + CHUNK > candidates.size:
            candidates = grown(candidates, count, 2 * candidates.size)
        for i in range(CHUNK):  # a loop each: they become vector code
            a[i] = draw(hashes.mul_a, hashes.add_a, start + i)
        for i in range(CHUNK):
            b[i] = _second(hashes, start + i)
        left = min(CHUNK, n - start)
        for i in range(left):
            live[i] = i
        for _ in range(hashes.h):
            left = _ask(words, hashes.m, a, b, live, left)
        for t in range(left):
            candidates[count + t] = start + np.int64(live[t])
        count += left
    return candidates[:count]


@njit(cache=True, nogil=True)
def _visit(candidates, hashes, ends, items):
    """Goes through (set, item): counts in ``ends`` (m,), and stores where ``items`` has room."""
    last = np.full(ends.size, -1, np.int32)  # the newest item of a set: two places may be one bit
    for x in range(candidates.size):
        a, b = draw(hashes.mul_a, hashes.add_a, candidates[x]), _second(hashes, candidates[x])
        for _ in range(hashes.h):
            bit = np.int64(_place(a, hashes.m))
            a = np.uint32(a + b)
            if last[bit] != x:
                last[bit] = x
                if items.size:
                    items[ends[bit]] = x
                ends[bit] += 1


@njit(cache=True, nogil=True)
def _conflicts(candidates, hashes):
    """The items of each conflict set: ``items[starts[j]:stops[j]]``, numbers into ``candidates``.

    Set j holds the positives with a place at bit j, each once, in order.
    """
    sizes = np.zeros(hashes.m, np.int64)
    _visit(candidates, hashes, sizes, np.empty(0, np.int32))
    starts = np.cumsum(sizes) - sizes
    stops, items = starts.copy(), np.empty(sizes.sum(), np.int32)
    _visit(candidates, hashes, stops, items)
    return starts, stops, items


@njit(cache=True, nogil=True)
def resolve(candidates, r, hashes, multiplier, offset):
    """Sorted ``r`` of the positives ``candidates`` by their conflict sets (Algorithm 1, policy P2).

    The sets are gone through by (size, bit), again and again; each gives an item that no set
    gave before, by word number 0, 1, 2 ... of the noise of ``multiplier`` and ``offset``; a set
    that has none left is skipped, and dropped for the next time.
    """
    starts, stops, items = _conflicts(candidates, hashes)
    sizes = stops - starts
    place = np.zeros(sizes.max() + 2, np.int64)  # a counting sort of the sets that are not empty
    for size in sizes:
        place[size + 1] += size > 0
    place = np.cumsum(place)
    order = np.empty(place[-1], np.int32)
    for j in range(sizes.size):
        if sizes[j]:
            order[place[sizes[j]]] = j
            place[sizes[j]] += 1
    chosen = np.zeros(candidates.size, np.bool_)
    count = drawn = 0
    while count < r:
        members = 0
        for j in order:
            end = starts[j]
            for t in range(starts[j], stops[j]):  # the items that are not chosen come to the front
                if not chosen[items[t]]:
                    items[end] = items[t]
                    end += 1
            stops[j] = end
            left = stops[j] - starts[j]
            if left == 0:
                continue
            order[members] = j
            members += 1
            word = np.uint64(draw(multiplier, offset, drawn))
            drawn += 1
            chosen[items[starts[j] + np.int64((word * np.uint64(left)) >> _32)]] = True
            count += 1
            if count == r:
                break
        order = order[:members]
    return candidates[chosen]

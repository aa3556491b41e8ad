"""Lengths of prefix codes: from how often symbols occur, and from the steps in a message."""

import numpy as np
from numba import njit

LONGEST = 32  # bits of a code


@njit(cache=True, nogil=True)
def count(numbers, alphabet):
    """How often each of 0 to alphabet - 1 occurs: four tables, so that equal neighbours
    need not wait for each other."""
    counts = np.zeros((4, alphabet), np.int64)
    stop = numbers.size - numbers.size % 4
    for i in range(0, stop, 4):
        counts[0, numbers[i]] += 1
        counts[1, numbers[i + 1]] += 1
        counts[2, numbers[i + 2]] += 1
        counts[3, numbers[i + 3]] += 1
    for i in range(stop, numbers.size):
        counts[0, numbers[i]] += 1
    return counts.sum(axis=0)


@njit(cache=True, nogil=True)
def depths(weights):
    """Lengths (int64) of an optimal code for two or more rising ``weights`` (int64).

    Huffman's algorithm with two queues, leaves and joined nodes; among equals a leaf goes
    first, which keeps the longest code as short as an optimal code's can be.
    """
    m = weights.size
    joined = np.zeros(m - 1, np.int64)
    above = np.zeros(2 * m - 1, np.int64)  # leaves, then joined nodes
    leaf, node = 0, 0
    for new in range(m - 1):
        for _ in range(2):
            if leaf < m and (node >= new or weights[leaf] <= joined[node]):
                joined[new] += weights[leaf]
                above[leaf] = m + new
                leaf += 1
            else:
                joined[new] += joined[node]
                above[m + node] = m + new
                node += 1
    levels = np.zeros(2 * m - 1, np.int64)
    for i in range(2 * m - 3, -1, -1):
        levels[i] = levels[above[i]] + 1
    return levels[:m]


@njit(cache=True, nogil=True)
def from_steps(first, steps, lengths):
    """Fills ``lengths`` (uint8) from zigzag steps (>= 1), the last from what is left free.

    False where a length is none of 1 to LONGEST, or the lengths make no complete code.
    """
    length = np.int64(first)
    left = np.int64(1) << LONGEST
    for i in range(lengths.size - 1):
        if i > 0:
            step = steps[i - 1] - 1
            length += -((step + 1) >> 1) if step & 1 else step >> 1
        if length < 1 or length > LONGEST:
            return False
        lengths[i] = length
        left -= np.int64(1) << (LONGEST - length)
        if left <= 0:
            return False
    if left & (left - 1):
        return False
    length = LONGEST
    while left > 1:
        left >>= 1
        length -= 1
    lengths[lengths.size - 1] = length
    return True

"""Which of n places a seed draws: by the noise words of the places, never by an order of draws.

Without replacement: the k places with the smallest words. A seed's words of different
places below 2**32 differ, so every place is drawn at most once and the number is k. How
the words of a seed are spread is known beforehand: a limit a little above the k-th
smallest leaves few candidates, and an exact selection among those finishes.
"""

import math

import numpy as np
from numba import njit

from compressors.kernels.compact import CHUNK, gather, grown, marked
from compressors.kernels.noise import draw, key

_TOP = 2**32 - 1  # the largest word
_MARGIN = 6.0  # standard deviations between k and the candidates expected


@njit(cache=True, nogil=True)
def _up_to(multiplier, offset, n, limit, room):
    """The places 0..n-1 in order whose word is at most ``limit``, and their words."""
    places, kept_words = np.empty(room + CHUNK, np.int64), np.empty(room + CHUNK, np.uint32)
    flags, words = np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint32)
    busy = np.empty(CHUNK // 8, np.int64)
    count = 0
    for start in range(0, n, CHUNK):
        if count + CHUNK > places.size:
            size = 2 * places.size
            places, kept_words = grown(places, count, size), grown(kept_words, count, size)
        for i in range(CHUNK):
            words[i] = draw(multiplier, offset, start + i)
            flags[i] = words[i] <= limit
        flags[min(CHUNK, n - start) :] = 0
        used = busy[: marked(flags, busy)]
        count += gather(flags, used, words, start, places[count:], kept_words[count:])
    return places[:count], kept_words[:count]


def up_to(n: int, limit: int, seed: int) -> np.ndarray:
    """Sorted int64 places of 0..n-1 whose noise word is at most ``limit`` (below 2**32).

    Example:
        >>> up_to(10, 2**32 - 1, seed=1).tolist() == list(range(10))
        True
    """
    return _up_to(*key(seed), n, np.uint32(limit), round(n * (limit + 1) / 2**32))[0].copy()


def smallest(n: int, k: int, seed: int) -> np.ndarray:
    """Sorted int64 places (k,) of 0..n-1 (n below 2**32) with the smallest noise words.

    Example:
        >>> smallest(1000, 3, seed=1).tolist() == smallest(1000, 3, seed=1).tolist()
        True
        >>> smallest(3, 3, seed=1).tolist()
        [0, 1, 2]
    """
    if k >= n:
        return np.arange(n, dtype=np.int64)
    margin = _MARGIN * math.sqrt(k) + 8
    limit = min(_TOP, math.ceil((k + margin) / n * 2**32))  # where too few reach it, all are seen
    low = max(0, math.floor((k - margin) / n * 2**32))
    places, words = _up_to(*key(seed), n, np.uint32(limit), math.ceil(k + margin))
    if places.size < k:
        places, words = _up_to(*key(seed), n, np.uint32(_TOP), n)
    below = words < low  # which are among them, unless there are k or more of those
    if np.count_nonzero(below) >= k:
        below[:] = False
    others = np.flatnonzero(~below)
    order = np.lexsort((places[others], words[others]))  # ties go to the lowest place
    below[others[order[: k - np.count_nonzero(below)]]] = True
    return places[below]

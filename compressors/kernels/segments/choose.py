"""Which entries of every segment are sent, and the numbers that they need, in one call.

The selections and sums are those of ``kernels.select`` and ``kernels.dither``. A mean is the one
that numpy finds where that does not depend on the order of the sum; where it may, the caller is
told and asks numpy.
"""

import math

import numpy as np
from numba import njit

from compressors.kernels.dither import largest_magnitude, power_sum, variance
from compressors.kernels.noise import draw
from compressors.kernels.segments.address import floats_at
from compressors.kernels.select import MAGNITUDE, both_sides_in, largest_in, room_for, scratch

ROUND = 2  # see ``whole.pipeline``

_1, _31, _32 = np.uint64(1), np.uint64(31), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_C, _D = np.uint64(0x94D049BB133111EB), np.uint64(0xD6E8FEB86659FD93)


@njit(cache=True, nogil=True)
def derived(seed, ordinal):
    """``base.tensor_seed``, as uint64."""
    mixed = (np.uint64(seed) + _1) * _A + (np.uint64(ordinal) + _1) * _B
    return ((mixed ^ (mixed >> _31)) * _C) >> _32


@njit(cache=True, nogil=True)
def of_segment(seed, s):
    """The seed of what is drawn to round the values of segment ``s``."""
    return derived(derived(seed, s), ROUND)


@njit(cache=True, nogil=True)
def key_of(seed):
    """``noise.key``: the multiplier and the offset of a seed's counter, uint32."""
    mixed = (np.uint64(seed) + _1) * _A
    mixed = (mixed ^ (mixed >> _32)) * _D
    mixed ^= mixed >> _32
    return np.uint32((mixed & _LOW) | _1), np.uint32(mixed >> _32)


SIZE, START, WANTED, BASE, LOW = range(5)
"""Rows of a table of segments: entries, the first of them in a vector of all, how many are to be
sent, where what is sent of them begins, and the low bits of a gap."""

MEAN, INF, ONE, TWO = range(4)
"""What a number is: the mean magnitude, or a norm."""

_LARGEST = np.float64(np.finfo(np.float32).max)
_INFINITE = np.int32(0x7F800000)
_ROUNDING = 2.0**-51  # four times the unit of rounding of float64
_LANES = 16
_NORM_NOISE = 1  # as in ``quantize.dither``
_MANTISSA = np.uint32(9)
_POWER = np.uint32(0xFF800000)
_TOP_POWER = np.uint32(254 << 23)


@njit(cache=True, nogil=True)
def _add(addresses, residuals, where, n):
    """The sum of ``n`` entries at two addresses, at a third; see ``add_residuals``."""
    x, out = floats_at(addresses, n), floats_at(where, n)
    if residuals > 0:
        memory = floats_at(residuals, n)
        for i in range(n):
            out[i] = x[i] + memory[i]
    else:
        nothing = np.float32(-0.0 if residuals else 0.0)  # no sum with zero is minus zero
        for i in range(n):
            out[i] = x[i] + nothing


@njit(cache=True, nogil=True)
def add_residuals(addresses, residuals, where, sizes):
    """Update plus memory, or the update alone, where the sums belong.

    Args:
        addresses: addresses of the update's tensors: int64 (tensors,).
        residuals: those of the memory's; 0 for zeros, -1 for no memory at all.
        where: addresses of the sums.
        sizes: entries of each tensor.
    """
    for s in range(addresses.size):
        _add(addresses[s], residuals[s], where[s], sizes[s])


@njit(cache=True, nogil=True)
def _mean_of(total, count):
    """The float32 mean, and whether any order of summation in float64 gives the same."""
    slack = (count + 4.0) * _ROUNDING
    low = np.float32(total * (1.0 - slack) / count)
    return low, low == np.float32(total * (1.0 + slack) / count)


@njit(cache=True, nogil=True)
def choose_entries(
    addresses,
    residuals,
    where,
    sums,
    table,
    magnitudes,
    sided,
    shared,
    keeps,
    chosen,
    values,
    counts,
    numbers,
    doubts,
):
    """The largest magnitudes of every segment, or those of its stronger side, with their mean.

    Args:
        addresses, residuals: as ``add_residuals`` takes them, where it is done on the way; else
            not read.
        where: addresses of the segments: int64 (segments,).
        sums: whether the segments are sums that are still to be made.
        table: rows as above, int64.
        magnitudes: anything where the largest magnitudes are chosen; else None.
        sided: anything where the stronger side is (``select.one_sided``); else None. What is None
            is not compiled.
        shared: whether all that is sent of a segment becomes its mean. Where that is certain it is
            then taken from the segment, if ``keeps``, while both are at hand.
        chosen: is filled with positions in the segment, in order: int64, from BASE of each on.
        values: with the entries there: float32.
        counts: with how many there are: int64 (segments,).
        numbers: with their mean, for one side.
        doubts: with 1 where numpy may find another mean.

    Returns:
        How many segments send another number than is wanted, and how many means are in doubt; -1
        where an entry is not finite.
    """
    odd = doubtful = largest = 0
    for s in range(table.shape[1]):
        largest = max(largest, room_for(table[WANTED, s], table[SIZE, s]))
    room = scratch(largest)
    for s in range(table.shape[1]):
        n, k, base = table[SIZE, s], table[WANTED, s], table[BASE, s]
        if n == 0:
            continue
        if sums:
            _add(addresses[s], residuals[s], where[s], n)
        x, total = floats_at(where[s], n), 0.0
        if magnitudes is not None:
            places = largest_in(room, x, k, MAGNITUDE)
        if sided is not None:
            places, other = both_sides_in(room, x, k, k)
            low = 0.0
            for i in places:
                total += np.float64(x[i])
            for i in other:
                low += np.float64(x[i])
            if not (math.isfinite(total) and math.isfinite(low)):
                return -1, -1
            if other.size and (not places.size or total / places.size < -(low / other.size)):
                places, total = other, low
            if shared and places.size:
                numbers[s], certain = _mean_of(total, places.size)
                doubts[s] = not certain
                doubtful += not certain
        for i in range(places.size):
            chosen[base + i] = places[i]
            values[base + i] = x[places[i]]
        sent = values[base : base + places.size]
        if magnitudes is not None and largest_magnitude(sent) >= _INFINITE:
            return -1, -1  # infinity and NaN have the largest keys
        if shared and not doubts[s]:
            for i in range(places.size):
                values[base + i] = numbers[s]
                if keeps:
                    x[places[i]] -= numbers[s]
        counts[s] = places.size
        odd += places.size != k
    return odd, doubtful


@njit(cache=True, nogil=True)
def measure_scales(sources, counts, bucket, what, clip, seed, numbers, decoded, doubts):
    """The number of every segment, or of every bucket of it, as sent and as the receiver knows it.

    Args:
        sources: addresses of the values: int64 (segments,).
        counts: how many there are: int64 (segments,).
        bucket: values that share a number; 0: all of a segment do.
        what: MEAN, or a norm.
        clip: standard deviations at which the number is cut off; 0: it is not.
        seed: of the message, where numbers travel as powers of two by chance; else -1.
        numbers: is filled: float32, one per segment, or the buckets' one after the other.
        decoded: with what the receiver knows of it; may be the same array.
        doubts: with 1 where numpy may find another mean.

    Returns:
        How many means are in doubt; -1 where a value is not finite.
    """
    scratch, top = np.empty(_LANES, np.float64), np.empty(1, np.int32)
    at = doubtful = 0
    for s in range(counts.size):
        size = bucket if bucket else counts[s]
        at = at if bucket else s
        for start in range(0, counts[s], max(1, size)):
            x = floats_at(sources[s] + 4 * start, min(size, counts[s] - start))
            if what == INF:
                top[0] = largest_magnitude(x)
                number = np.float64(top.view(np.float32)[0])
            else:
                number = power_sum(x, what == TWO, scratch)
            if not math.isfinite(number):
                return -1
            if what == MEAN:
                numbers[at], certain = _mean_of(number, x.size)
                doubts[at] = not certain
                doubtful += not certain
            else:
                number = math.sqrt(number) if what == TWO else number
                number = min(number, _LARGEST)
                bound = clip * math.sqrt(variance(x)) if clip else 0.0
                if bound > 0:
                    number = min(number, bound)
                numbers[at] = number
            decoded[at] = numbers[at]
            if seed >= 0:
                seed_of_segment = derived(of_segment(seed, s), _NORM_NOISE)
                multiplier, offset = key_of(seed_of_segment)
                bits = decoded.view(np.uint32)
                word = draw(multiplier, offset, start // max(1, size)) >> _MANTISSA
                bits[at] = min(np.uint32(bits[at] + word) & _POWER, _TOP_POWER)
            at += 1
    return doubtful

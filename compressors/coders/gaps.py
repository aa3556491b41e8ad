"""Gaps between sorted positions as a class and low bits: what entropy coders code of them.

A gap d >= 1 (the first counts from -1) of L bits keeps its first t + 1 bits and has
s = max(0, L - 1 - t) low bits below them. Its class is s 2**t + (d >> s) - 1: one of 2**t parts
of an octave; gaps below 2**(t + 1) have a class each and no low bits. t grows with the number
of positions k, which both sides know: more classes fit better, and a table of them costs more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import check_rising, check_sorted
from compressors.errors import PayloadError
from compressors.kernels import bitmap, gaps

_FINER = (1 << 10, 1 << 13, 1 << 16)  # positions from which octaves have 2, 4 and 8 parts


def parts(k: int) -> int:
    """t, log2 of the parts of an octave, for ``k`` positions.

    Example:
        >>> [parts(k) for k in (1, 1023, 1024, 10**4, 10**5, 10**9)]
        [0, 0, 1, 2, 3, 3]
    """
    return sum(k >= least for least in _FINER)


def gap_class(gap: int, t: int) -> int:
    """The class of one gap.

    Example:
        >>> [gap_class(gap, 1) for gap in (1, 2, 3, 4, 5, 6, 7, 8, 11, 12)]
        [0, 1, 2, 3, 3, 4, 4, 5, 5, 6]
    """
    low = max(0, gap.bit_length() - 1 - t)
    return (low << t) + (gap >> low) - 1


def write_gaps(
    indices: np.ndarray,
    n: int,
    out: BitWriter,
    write_classes: Callable[[np.ndarray, int, BitWriter], None],
) -> None:
    """Writes the classes of all gaps by ``write_classes``, then the low bits of all gaps."""
    check_rising(indices, n)
    k = indices.size
    if k == 0:
        return
    t = parts(k)
    classes = np.empty(k, np.uint16)
    low = gaps.classes(indices, t, classes)
    write_classes(classes, gap_class(n, t) + 1, out)
    out.reserve(int(low))
    out.position = gaps.put_low(indices, t, out.words, out.position)


def read_gaps(
    bits: BitReader, n: int, k: int, read_classes: Callable[[BitReader, int, int], np.ndarray]
) -> np.ndarray:
    """The ``k`` indices below ``n``; ``PayloadError`` where gaps run past n or the end."""
    if k == 0:
        return np.empty(0, np.int64)
    t = parts(k)
    classes = read_classes(bits, k, gap_class(n, t) + 1)
    low = int(gaps.count_low_bits(classes, t))
    bits.need(low)
    indices = np.empty(k, np.int64)
    if not gaps.rebuild(classes, t, n, bits.words, bits.position, indices):
        raise PayloadError(f"gaps between positions run past entry {n - 1}")
    bits.position += low
    return indices


def write_keys(
    indices: np.ndarray, widest: int, out: BitWriter, write_counts: Callable[[np.ndarray], None]
) -> None:
    """Writes the steps between indices, the first from 0, each in as few bytes as hold it.

    ``widest``: bytes that a step takes at most. ``write_counts`` writes the bytes of each less one.
    """
    steps = np.diff(indices, prepend=0)
    counts = np.zeros(steps.size, np.uint8)
    for more in range(1, widest):
        counts += steps >= 1 << 8 * more
    write_counts(counts)
    counts += np.uint8(1)
    out.reserve(8 * int(counts.sum(dtype=np.int64)))
    out.position = int(gaps.put_bytes(steps, counts, out.words, out.position))


def read_keys(bits: BitReader, counts: np.ndarray, n: int) -> np.ndarray:
    """The indices below ``n`` that ``write_keys`` wrote; ``counts``: as they were written."""
    counts = counts + np.uint8(1)
    bits.need(8 * int(counts.sum(dtype=np.int64)))
    steps = np.empty(counts.size, np.int64)
    bits.position = int(gaps.get_bytes(counts, bits.words, bits.position, steps))
    return check_sorted(np.cumsum(steps), n)


@dataclass(frozen=True)
class Delta16:
    """16 bits per gap, and an escape for gaps that do not fit.

    Layout: for every gap d to the position before (the first counts from -1) d - 1 in 16
    bits where that is below 65535; else 65535 in 16 bits and d - 1 in ceil(log2 n) bits.

    Example:
        >>> out = BitWriter()
        >>> _ = Delta16().write_positions(np.array([2, 70000]), 2**17, out, 0)
        >>> out.position == 16 + 16 + 17
        True
    """

    codec_id: ClassVar[str] = "delta16"
    needs_seed: ClassVar[bool] = False

    def position_bits(self, indices: np.ndarray, n: int) -> int:
        return 16 * indices.size + (n - 1).bit_length() * int(bitmap.count_escapes(indices))

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        check_rising(indices, n)
        out.reserve(self.position_bits(indices, n))
        width = (n - 1).bit_length()
        out.position = bitmap.encode_16(indices, width, out.words, out.position)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where the code runs past the end or past n."""
        if k == 0:
            return np.empty(0, np.int64)
        bits.need(16 * k)
        indices, width = np.empty(k, np.int64), (n - 1).bit_length()
        refusal = f"16-bit gaps run past the payload's end or past entry {n - 1}"
        bits.decode(bitmap.decode_16, n, width, indices, refusals=[refusal])
        return indices

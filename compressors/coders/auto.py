"""Positions in the cheapest of several codes, chosen for every tensor."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.coders.context import Context
from compressors.coders.elias import EliasDelta, EliasGamma, EliasOmega
from compressors.coders.fixed import Bitmap, Fixed
from compressors.coders.gaps import Delta16
from compressors.coders.golomb import Golomb
from compressors.coders.runlength import RunLength
from compressors.errors import PayloadError
from compressors.parts import Measured, PositionCode

CANDIDATES: tuple[PositionCode, ...] = (
    Golomb(),
    Golomb(kind="exact"),
    Golomb(kind="fit"),
    EliasGamma(),
    EliasDelta(),
    EliasOmega(),
    RunLength(),
    Bitmap(),
    Fixed(),
    Delta16(),
    Context(),
)
"""What ``Auto`` chooses from; the byte in the message is the number in this list.

New codes go to its end, so that messages in store can still be read. A code must be lossless
and need no seed; one without ``position_bits`` is written once to see how long it is.
``raw32`` is left out: ``Fixed`` is never longer.
"""

_NUMBER_BITS = 8


def written_bits(code: PositionCode, indices: np.ndarray, n: int) -> int:
    """Exactly the bits that ``code`` takes for sorted ``indices`` (k,) below ``n``.

    Example:
        >>> written_bits(Bitmap(), np.array([2, 7]), 9)
        9
    """
    if isinstance(code, Measured):
        return code.position_bits(indices, n)
    scratch = BitWriter()
    code.write_positions(indices, n, scratch, 0)
    return scratch.position


@dataclass(frozen=True)
class Auto:
    """One byte that names a code of ``CANDIDATES``, then the positions in that code.

    The shortest is taken, the first of equals: never more than 8 bits above ``golomb``,
    which is among them. A tensor that sends nothing takes no bits.

    Source: this project.

    Example:
        >>> out = BitWriter()
        >>> _ = Auto().write_positions(np.arange(100), 100, out, 0)
        >>> out.position  # one byte, and one run of ``rle``: all are sent
        22
    """

    codec_id: ClassVar[str] = "auto"
    needs_seed: ClassVar[bool] = False

    def position_bits(self, indices: np.ndarray, n: int) -> int:
        if indices.size == 0:
            return 0
        return _NUMBER_BITS + min(written_bits(code, indices, n) for code in CANDIDATES)

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        if indices.size == 0:
            return indices
        bits = [written_bits(code, indices, n) for code in CANDIDATES]
        best = bits.index(min(bits))
        out.uint(best, _NUMBER_BITS)
        return CANDIDATES[best].write_positions(indices, n, out, seed)

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` for an unknown number or what the code refuses."""
        if k == 0:
            return np.empty(0, np.int64)
        number = bits.uint(_NUMBER_BITS)
        if number >= len(CANDIDATES):
            raise PayloadError(f"auto: position code {number} of {len(CANDIDATES)}")
        return CANDIDATES[number].read_positions(bits, n, k, seed)

"""How many entries of a tensor travel, and which: a Gamma code, then Golomb's of the gaps."""

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.coders.golomb import Golomb
from compressors.errors import PayloadError


def write_places(places: np.ndarray, n: int, out: BitWriter) -> None:
    """Writes the ascending positions of a tensor of ``n`` entries; none take one bit."""
    with out.span("header"):
        out.gamma(places.size + 1)
    if places.size:
        with out.span("positions"):
            Golomb().write_positions(places, n, out, 0)


def read_places(bits: BitReader, n: int) -> np.ndarray:
    """The positions that ``write_places`` wrote.

    Raises ``PayloadError`` for more than ``n`` of them.
    """
    with bits.span("header"):
        k = bits.gamma() - 1
    if k > n:
        raise PayloadError(f"{k} entries announced for a tensor of {n}")
    if k == 0:
        return np.zeros(0, np.int64)
    with bits.span("positions"):
        return Golomb().read_positions(bits, n, k, 0)

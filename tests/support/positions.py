"""A position code's way there and back."""

import numpy as np

from compressors import BitReader, BitWriter, PositionCode
from compressors.coders.auto import written_bits
from tests.support.generators import to_bits


def round_trip(code: PositionCode, indices: list[int], n: int, before: str = "") -> str:
    """Writes behind ``before``, reads back in front of other bits; returns the bits."""
    array, out = np.array(indices, np.int64), BitWriter()
    for bit in before:
        out.uint(int(bit), 1)
    rebuilt = code.write_positions(array, n, out, 0)
    assert np.array_equal(rebuilt, array)
    length = out.position - len(before)
    assert written_bits(code, array, n) == length
    out.uint(0x5A5A5A, 23)
    reader = BitReader(out.to_bytes())
    reader.uints(len(before), 1)
    got = code.read_positions(reader, n, len(indices), 0)
    assert got.dtype == np.int64
    assert np.array_equal(got, array)
    assert reader.position == len(before) + length
    return to_bits(out.to_bytes())[len(before) :][:length]

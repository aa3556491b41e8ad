"""Floats of 16 bits: rounding to even, the ends of the range, and bits by hand."""

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import BFloat16, BitWriter, Float16, compress, decompress, parse
from compressors.kernels import noise
from compressors.parts import Place
from tests.support.generators import bits_of, from_bits, to_bits

LARGEST = torch.finfo(torch.float32).max


def rounded(short: Float16 | BFloat16, values: Tensor) -> Tensor:
    place = Place(None, values.shape)
    symbols = short.quantize(values, place, BitWriter(), 0)
    assert symbols.alphabet == 1 << 16
    assert symbols.codes.dtype == torch.int32
    assert not bool((symbols.codes >> 16).any())
    return short.dequantize(symbols, place, 0)


def finite_bits(count: int) -> np.ndarray:
    """Bits of finite float32 numbers of all sizes."""
    drawn = noise.words(8, np.arange(count))
    return drawn[(drawn & 0x7F800000) != 0x7F800000]


def test_bfloat16_by_integers() -> None:
    """Half a unit less one, and one where the last kept bit is odd, is added: ties to even."""
    bits = finite_bits(20_000)
    ties = (bits[:5000] & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    bits = np.concatenate([bits, ties]).astype(np.uint64)
    kept = ((bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)) << 16
    over = (kept & 0x7F800000) == 0x7F800000
    kept = np.where(over, (bits & 0x80000000) | 0x7F7F0000, kept).astype(np.uint32)
    values = torch.from_numpy(bits.astype(np.uint32).view(np.float32))
    assert np.array_equal(bits_of(rounded(BFloat16(), values)), kept)


def test_float16_against_numpy() -> None:
    bits = finite_bits(20_000)
    near = (noise.words(9, np.arange(20_000)) % np.uint32(44 << 23)) + np.uint32(100 << 23)
    values = np.concatenate([bits, near]).astype(np.uint32).view(np.float32)
    wanted = np.clip(values, -65504, 65504).astype(np.float16).astype(np.float32)
    found = rounded(Float16(), torch.from_numpy(values))
    assert np.array_equal(bits_of(found), wanted.view(np.uint32))


def test_beyond_the_largest_number() -> None:
    """No infinity: an update with one is refused, and a rounded one must not be."""
    values = torch.tensor([65504.0, 65519.0, 65520.0, -1e30, LARGEST, -LARGEST])
    assert rounded(Float16(), values).tolist() == [65504.0] * 3 + [-65504.0, 65504.0, -65504.0]
    last = (2 - 2.0**-7) * 2.0**127
    assert rounded(BFloat16(), values[4:]).tolist() == [last, -last]


BY_HAND = [
    # Sign, exponent + 15 in 5 bits, 10 of fraction; the upper byte of all, then the lower.
    ("float16", [1.0, -2.5], "0 01111 00 1 10000 01 00000000 00000000"),
    ("float16", [1 + 2**-10, 65504.0], "00111100 01111011 00000001 11111111"),
    # The upper half of a float32.
    ("bfloat16", [1.0, -2.5], "0 0111111 1 1000000 10000000 00100000"),
]


@pytest.mark.parametrize(("method", "entries", "bits"), BY_HAND)
def test_messages_written_by_hand(method: str, entries: list[float], bits: str) -> None:
    update = {"w": torch.tensor(entries)}
    payload = compress(parse(method), update)[0].payload
    assert to_bits(payload[3:]) == to_bits(from_bits(bits))
    assert torch.equal(decompress(parse(method), payload, update)["w"], update["w"])

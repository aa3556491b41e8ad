"""A sign and shared magnitudes after dropping: one bit, two bits, columns, ternary updates."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import compress, decompress, parse, stc, text
from tests.support.generators import bits_of

X = torch.tensor([4.0, -1.0, 0.5, -3.0, 2.0, 0.0, -6.0, 0.25])


def sent(method: str, x: Tensor) -> Tensor:
    """What arrives of ``x``, checked to be what a reader finds."""
    packet, _ = compress(parse(method), {"w": x})
    got = decompress(parse(method), packet.payload, {"w": torch.full_like(x, math.nan)})["w"]
    assert np.array_equal(bits_of(got), bits_of(packet.sent["w"].decoded))
    return got


def spans(method: str, x: Tensor) -> tuple[int, int]:
    found = compress(parse(method), {"w": x})[0].spans
    return found["values"], found["side"]


@pytest.mark.parametrize(
    ("quantize", "expected"),
    [
        ("magnitude(min)", [2, 0, 0, -2, 2, 0, -2, 0]),  # 4, 3, 2 and 6 survive
        ("magnitude(avg)", [3.75, 0, 0, -3.75, 3.75, 0, -3.75, 0]),
        ("magnitude", [3.75, 0, 0, -3.75, 3.75, 0, -3.75, 0]),
        ("magnitude(column)", [3.75, 0, 0, -3.75, 3.75, 0, -3.75, 0]),  # one dimension, one column
        # Split at the median 4: 2 and 3 below, 4 and 6 at or above.
        ("magnitude(min, 2)", [4, 0, 0, -2, 2, 0, -4, 0]),
        ("magnitude(avg, bits=2)", [5, 0, 0, -2.5, 2.5, 0, -5, 0]),
    ],
)
def test_by_hand(quantize: str, expected: list[float]) -> None:
    assert sent(f"topk(0.5) | {quantize}", X).tolist() == expected
    assert sent(f"topk(0.5) | {quantize}", -X).tolist() == [-v for v in expected]


def test_columns_by_hand() -> None:
    """The four survivors again: 4 and 3 in the first row, 2 and 6 in the second."""
    assert sent("topk(0.5) | magnitude(column)", X.reshape(2, 4)).tolist() == [
        [3.5, 0, 0, -3.5],
        [4, 0, -4, 0],
    ]


def test_what_travels() -> None:
    """A bit or two a survivor, 32 a magnitude; only columns that send have one."""
    assert spans("topk(0.5) | magnitude(min)", X) == (4, 32)
    assert spans("topk(0.5) | magnitude(avg, 2)", X) == (8, 64)
    assert spans("topk(0.5) | magnitude(column)", X.reshape(2, 4)) == (4, 64)
    assert spans("topk(0.25) | magnitude(column)", X.reshape(8, 1)) == (2, 64)
    assert spans("topk(0.5) | magnitude(column)", torch.zeros(2, 4)) == (0, 0)


def test_sparse_ternary_compression() -> None:
    assert parse("topk(0.1) | ternary") == parse("topk(0.1) | magnitude")
    assert text(stc(0.01)) == "ef(per_tensor(topk(0.01) | magnitude | golomb))"
    assert text(stc(1)) == "raw"
    with pytest.raises(ValueError, match="p is 1.5"):
        stc(1.5)
    packet, state = compress(stc(0.25), {"w": X})
    assert packet.sent["w"].decoded.tolist() == [5, 0, 0, 0, 0, 0, -5, 0]
    assert state["residual/w"].tolist() == [-1, -1, 0.5, -3, 2, 0, -1, 0.25]


@pytest.mark.parametrize("method", ["magnitude(min, 2)", "magnitude(avg, 2)"])
def test_two_bits_of_what_has_one_magnitude(method: str) -> None:
    """Nothing lies below the median: both halves say the same, and all is kept."""
    for x in (torch.tensor([2.0, -2.0, 2.0]), torch.tensor([-5.0])):
        assert torch.equal(sent(method, x), x)

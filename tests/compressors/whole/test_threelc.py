"""3LC: golden bytes by hand, thresholds, runs, and bytes that do not fit."""

import math

import numpy as np
import pytest
import torch

from compressors import BitReader, BitWriter, PayloadError, ThreeLC, compress, parse
from tests.support.generators import whole_numbers


def body(x: torch.Tensor, sparsity: float = 1.0) -> list[int]:
    """The bytes behind the magnitude."""
    out = BitWriter()
    ThreeLC(sparsity).write(x, out, 0)
    return list(out.to_bytes()[4:])


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([1, 1, 1, 1, 1], [242]),
        ([-1, -1, -1, -1, -1], [0]),
        ([1, 0, 0, 0, 0], [2 * 81 + 27 + 9 + 3 + 1]),
        ([0, 0, 0, 0, -1], [120]),
        ([1], [2 * 81 + 27 + 9 + 3 + 1]),  # zeros fill the last parts
        (
            [1, -1, 0, 0, 0, 1, 0, 0, 0, 1],  # parts 1 -1, 0 0, 0 1, 0 0, 0 1
            [2 * 81 + 27 + 9 + 3 + 1, 0 * 81 + 27 + 2 * 9 + 3 + 2],
        ),
    ],
)
def test_quartic_bytes(entries: list[int], expected: list[int]) -> None:
    """A byte holds one entry of each of five parts, the first part highest."""
    assert body(torch.tensor(entries, dtype=torch.float32)) == expected


@pytest.mark.parametrize(
    ("zeros", "expected"),
    [
        (1, [121]),
        (2, [243]),
        (3, [244]),
        (14, [255]),
        (15, [255, 121]),
        (16, [255, 243]),
        (28, [255, 255]),
        (30, [255, 255, 243]),
    ],
)
def test_runs_of_five_zeros(zeros: int, expected: list[int]) -> None:
    assert body(torch.zeros(5 * zeros)) == expected
    ends = torch.zeros(5 * (zeros + 2))
    ends[0] = ends[zeros + 1] = 1.0  # both in the first part: the first and the last byte
    assert body(ends) == [202, *expected, 202]


@pytest.mark.parametrize("sparsity", [1.0, 1.5, 1.99])
def test_entries_are_rounded_to_multiples_of_m(sparsity: float) -> None:
    """M times the nearest of -1, 0, 1, halves to the even one, which is zero."""
    x = whole_numbers(999, 1) / 64
    sent = compress(parse(f"threelc({sparsity})"), {"w": x})[0].sent["w"]
    m = np.float32(float(x.abs().max()) * sparsity)
    expected = m * np.round(x.numpy().astype(np.float64) / np.float64(m))
    assert np.array_equal(sent.decoded.numpy(), expected.astype(np.float32))
    assert sent.decoded.abs().max() == m


def test_half_the_magnitude_is_zero() -> None:
    x = torch.tensor([2.0, 1.0, -1.0, math.nextafter(1.0, 2.0), 1.0001, -1.0001])
    sent = compress(parse("threelc"), {"w": x})[0].sent["w"]
    assert sent.decoded.tolist() == [2.0, 0.0, 0.0, 0.0, 2.0, -2.0]


@pytest.mark.parametrize(
    ("payload", "n", "why"),
    [
        (bytes(4), 5, "ends early"),
        (bytes(4) + b"\xff", 10, "do not end"),  # a run of 14 bytes where 2 are left
        (bytes(4) + b"\x79", 10, "do not end"),  # one byte of two
        (bytes(4) + b"\x00", 3, "not zero"),  # -1 in the two entries past the end
        (b"", 5, "ends early"),
    ],
)
def test_bytes_that_do_not_fit(payload: bytes, n: int, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        ThreeLC().read(BitReader(payload), torch.empty(n), 0)

"""The automatic choice of a position code: the shortest, one byte more, any code may join."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import (
    Auto,
    BitReader,
    BitWriter,
    Context,
    Delta16,
    EliasDelta,
    Fixed,
    Golomb,
    PayloadError,
    RunLength,
)
from compressors.coders.auto import CANDIDATES, written_bits


def length(code, indices: np.ndarray, n: int) -> int:
    """The bits that are really written."""
    out = BitWriter()
    code.write_positions(indices, n, out, 0)
    return out.position


@given(st.sets(st.integers(0, 2000), min_size=1, max_size=300), st.integers(1, 10**6))
def test_it_is_the_shortest_and_a_byte(chosen: set[int], room: int) -> None:
    indices = np.array(sorted(chosen), np.int64)
    n = int(indices[-1]) + room
    lengths = [length(code, indices, n) for code in CANDIDATES]
    assert lengths == [written_bits(code, indices, n) for code in CANDIDATES]
    assert length(Auto(), indices, n) == 8 + min(lengths)
    assert length(Auto(), indices, n) <= 8 + length(Golomb(), indices, n)


CUBES = [i**3 for i in range(60)]
POWERS = [2**i for i in range(20)]
GROUPS = [start + i for start in range(0, 10_000, 997) for i in range(4)]
WIDE = np.cumsum(np.random.default_rng(1).integers(40_000, 65_535, 300)).tolist()


@pytest.mark.parametrize(
    ("indices", "n", "name"),
    [
        (list(range(500)), 1000, RunLength()),
        ([2**20 - 1], 2**20, Fixed()),
        ([3], 8, Golomb()),
        (CUBES, 60**3, Context()),
        (list(range(9, 1000, 10)), 10**5, Context()),  # all within a hundredth
        (GROUPS, 10_000, EliasDelta()),
        (POWERS, 2**20 + 7, EliasDelta()),  # a prime: there is no grid
        (WIDE, 2 * 10**7, Delta16()),  # gaps just below 2**16
    ],
)
def test_what_wins_where(indices: list[int], n: int, name) -> None:
    out, array = BitWriter(), np.array(indices, np.int64)
    Auto().write_positions(array, n, out, 0)
    number = out.to_bytes()[0]
    assert CANDIDATES[number] == name
    reader = BitReader(out.to_bytes())
    assert Auto().read_positions(reader, n, array.size, 0).tolist() == indices


def test_numbers_are_a_format() -> None:
    """Messages in store name their code by its number: new ones go to the end."""
    names = [type(code).__name__ for code in CANDIDATES]
    assert names[:10] == [
        "Golomb",
        "Golomb",
        "Golomb",
        "EliasGamma",
        "EliasDelta",
        "EliasOmega",
        "RunLength",
        "Bitmap",
        "Fixed",
        "Delta16",
    ]
    assert [code.kind for code in CANDIDATES[:3]] == ["rice", "exact", "fit"]
    assert len(CANDIDATES) <= 256
    assert not any(code.needs_seed for code in CANDIDATES)


@pytest.mark.parametrize("number", [len(CANDIDATES), 255])
def test_an_unknown_number(number: int) -> None:
    with pytest.raises(PayloadError, match=f"position code {number} of"):
        Auto().read_positions(BitReader(bytes([number, 0, 0])), 9, 1, 0)

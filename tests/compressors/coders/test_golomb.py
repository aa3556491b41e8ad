"""Golomb position coding against Algorithms 3 and 4, equation 5, and hostile bits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import BitWriter, Golomb
from compressors.coders.golomb import (
    expected_position_bits,
    fitted_parameter,
    golomb_parameter,
    rice_parameter,
)
from fedsim.measure.theory.positions import golomb_bits
from tests.support.looping import looped
from tests.support.positions import round_trip

# methods.md's table, recomputed below: p, b*, bits a position (equation 5).
EQUATION_5 = [
    (0.1, 3, 4.75583),
    (0.05, 4, 5.78612),
    (0.02, 5, 7.10032),
    (0.01, 6, 8.10791),
    (0.005, 7, 9.11169),
    (0.002, 8, 10.49369),
    (0.001, 9, 11.49465),
    (1e-4, 13, 14.78816),
]


def algorithm_3(indices: list[int], b: int) -> str:
    """SBC, Algorithm 3, line by line: 1-based indices, I_0 = 0; the bits as text."""
    message, before = "", 0
    for index in (i + 1 for i in indices):
        d = index - before
        q, r = (d - 1) // 2**b, (d - 1) % 2**b
        message += "1" * q + "0" + (format(r, f"0{b}b") if b else "")
        before = index
    return message


def algorithm_4(message: str, b: int) -> list[int]:
    """SBC, Algorithm 4, line by line, of a message without padding."""
    found, i, j, q = [], 0, 0, 0
    while i < len(message):
        if message[i] == "0":
            j += q * 2**b + int("0" + message[i + 1 : i + 1 + b], 2) + 1
            found.append(j - 1)
            q, i = 0, i + b + 1
        else:
            q, i = q + 1, i + 1
    return found


def cost(p: float, b: int) -> float:
    """Mean bits of a geometric gap in a Rice code: b + 1 / (1 - (1 - p)**(2**b))."""
    return b - 1 / math.expm1(2.0**b * math.log1p(-p))


def check(indices: list[int], n: int, p: float | None = None, before: str = "") -> str:
    """Writes behind the bits ``before``, compares with Algorithms 3 and 4; returns the bits."""
    k = len(indices)
    b = rice_parameter(k / n if p is None else p) if k else 0
    bits = round_trip(Golomb(p), indices, n, before)
    assert bits == algorithm_3(indices, b)
    assert algorithm_4(bits, b) == indices
    return bits


@pytest.mark.parametrize(("p", "b", "bits"), EQUATION_5)
def test_equation_5(p: float, b: int, bits: float) -> None:
    assert rice_parameter(p) == b
    assert expected_position_bits(p) == pytest.approx(bits, abs=5e-6)
    assert expected_position_bits(p) == pytest.approx(cost(p, b), rel=1e-9)


def test_the_printed_8_38_is_another_b() -> None:
    """The paper prints 8.38 bits at p = 0.01: that is b = 7."""
    assert cost(0.01, 7) == pytest.approx(8.38, abs=0.005)
    assert cost(0.01, 6) < cost(0.01, 7)


def test_b_star_is_the_best_rice_parameter() -> None:
    """Compared by cost, so that the exact tie between two parameters has no wrong side."""
    for p in np.geomspace(1e-6, 0.6, 4001).tolist():
        best = min(cost(p, b) for b in range(25))
        assert cost(p, rice_parameter(p)) <= best * (1 + 1e-12), p


@pytest.mark.parametrize(("p", "b"), [(0.38196, 1), (0.38198, 0), (0.6, 0), (0.99, 0), (1, 0)])
def test_b_star_is_never_negative(p: float, b: int) -> None:
    assert rice_parameter(p) == b


def test_a_bias_of_twenty_entries() -> None:
    """k / n of the tensor at hand fixes b*, not the p of the method."""
    assert rice_parameter(1 / 20) == 4
    assert len(check([7], 20)) == 5
    assert len(check([7], 20, p=0.001)) == 10


@pytest.mark.parametrize(
    ("indices", "n", "bits"),
    [
        ([], 9, ""),
        ([0], 1, "0"),  # p = 1: b* = 0
        ([0, 1, 2], 3, "000"),
        ([2], 3, "10" + "0"),  # p = 1/3: b* = 1; gap - 1 = 2
        ([0, 9], 10, "0" + "00" + "110" + "00"),  # p = 1/5: b* = 2; gaps - 1 = 0 and 8
        ([3, 4, 50], 100, "0 0011 0 0000 110 1101"),  # p = 0.03: b* = 4; gaps - 1 = 3, 0, 45
    ],
)
def test_bits_written_by_hand(indices: list[int], n: int, bits: str) -> None:
    assert check(indices, n) == bits.replace(" ", "")


@given(
    indices=st.sets(st.integers(0, 3000), max_size=80),
    room=st.integers(1, 5000),
    p=st.none() | st.floats(1e-4, 1),
    before=st.text("01", max_size=64),
)
def test_any_indices_at_any_bit(indices: set[int], room: int, p: float | None, before: str) -> None:
    check(sorted(indices), max(indices, default=0) + room, p, before)


@pytest.mark.parametrize("offset", [0, 1, 31, 32, 33, 63])
@looped("run", [*range(29, 36), *range(61, 68), *range(125, 132), 1000])
def test_runs_of_ones_across_words(run: int, offset: int) -> None:
    """Quotients around 32, 64 and 128 at every place in a word; b = 0, then b = 3."""
    check([run, run + 1, 2 * run + 2], 3 * run + 9, 0.9, "1" * offset)
    check([8 * run + 5, 16 * run + 20], 16 * run + 40, 0.1, "1" * offset)


def test_golomb_parameters() -> None:
    """methods.md's, and the best of all by their exact costs, for densities of all sizes."""
    assert [golomb_parameter(p) for p in (0.1, 0.01, 0.001)] == [7, 69, 693]
    assert golomb_parameter(1) == golomb_parameter(0.9) == 1
    assert golomb_bits(0.01, 69) == pytest.approx(8.10501, abs=5e-6)
    assert golomb_bits(0.001, 693) == pytest.approx(11.43589, abs=5e-6)
    for p in np.geomspace(2e-3, 0.999, 60).tolist():
        m = golomb_parameter(p)
        best = min(golomb_bits(p, other) for other in range(1, 2 * m + 20))
        assert golomb_bits(p, m) <= best * (1 + 1e-12), p


@given(st.sets(st.integers(0, 10**6), min_size=1, max_size=60), st.sampled_from((1, 37, 10**9)))
def test_fitted_parameters_are_the_best(indices: set[int], stride: int) -> None:
    """Against all of them, by the length of the Rice codes written out."""
    array = np.array(sorted(indices), np.int64) * stride
    gaps = np.diff(array, prepend=-1) - 1
    cost = [int((gaps >> b).sum()) + (1 + b) * gaps.size for b in range(60)]
    assert cost[fitted_parameter(array)] == min(cost)
    assert fitted_parameter(array) == cost.index(min(cost))


@pytest.mark.parametrize("kind", ["rice", "exact", "fit"])
@given(st.sets(st.integers(0, 3000), min_size=1, max_size=50), st.integers(1, 10**6))
def test_split_is_as_long_as_interleaved(kind: str, indices: set[int], room: int) -> None:
    known, n = sorted(indices), max(indices) + room
    both = [round_trip(Golomb(None, kind, order), known, n) for order in ("interleaved", "split")]
    assert len(both[0]) == len(both[1])
    assert sorted(both[0]) == sorted(both[1])


def test_exact_quotients_at_multiples_of_m() -> None:
    """Gaps next to multiples of m, where a rounded product could be off by one."""
    for p in (0.4, 0.1, 0.013, 1e-5):
        m = golomb_parameter(p)
        gaps = [q * m + r for q in (0, 1, 2, 3, 31, 32, 33, 49, 1000) for r in (-1, 0, 1)][1:]
        indices = (np.cumsum(np.array(gaps) + 1) - 1).tolist()
        round_trip(Golomb(p, "exact"), indices, indices[-1] + 5)
        round_trip(Golomb(p, "exact", "split"), indices, indices[-1] + 5)


def test_a_writer_makes_room_for_the_last_index_and_not_for_the_tensor() -> None:
    """One index of 2**40: seven bits, where all entries as gaps would be 128 GiB."""
    out = BitWriter()
    Golomb("fit").write_positions(np.array([0]), 2**40, out, 0)
    assert out.position == 7 and out.words.nbytes < 2**16

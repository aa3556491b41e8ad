"""Range ANS: close to entropy, exact, refused where it was not written."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import Ans, BitReader, BitWriter, PayloadError
from compressors.kernels import rans
from compressors.parts import IEEE
from tests.support.generators import from_bits
from tests.support.symbols import round_trip, symbol_codes


def entropy(numbers: np.ndarray) -> float:
    """Bits of all of them together."""
    counts = np.unique(numbers, return_counts=True)[1]
    return float(-(counts * np.log2(counts / numbers.size)).sum())


def draws(kind: str, k: int) -> tuple[np.ndarray, int]:
    rng = np.random.default_rng(k)
    if kind == "sparse":
        return (rng.random(k) < 0.002) * rng.integers(1, 15, k), 15
    if kind == "ternary":
        return rng.choice(3, k, p=[0.8, 0.15, 0.05]), 3
    if kind == "flat":
        return rng.integers(0, 256, k), 256
    return np.clip(rng.normal(500, 90, k), 0, 999).astype(int), 1000


@pytest.mark.parametrize("kind", ["sparse", "ternary", "flat", "bell"])
def test_within_half_a_percent_of_entropy(kind: str) -> None:
    """The issue's bound, besides the table: at most 33 bits for each symbol that occurs, and
    the four states (4 times 60 bits)."""
    numbers, alphabet = draws(kind, 100_000)
    table = 33 * np.unique(numbers).size + 300
    bits = round_trip(Ans(), numbers, alphabet)
    assert entropy(numbers) < bits < 1.005 * entropy(numbers) + table


def test_rare_symbols_do_not_take_the_common_ones_share() -> None:
    """Some 1900 symbols once or twice among 1.5 million zeros: shares of 2**-20, not of 2**-16,
    which would take 3 % of the zero's: 60,000 bits. Their table takes at most 6 bits each."""
    numbers = np.zeros(1_500_000, np.int64)
    numbers[::500] = np.random.default_rng(0).integers(1, 3000, 3000)
    bits = round_trip(Ans(), numbers, 3000)
    assert bits < 1.005 * entropy(numbers) + 6 * np.unique(numbers).size + 300


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=64), st.integers(6, 20))
def test_shares(counts: list[int], bits: int) -> None:
    """Together 2**bits, none without one, each within one of exact unless small ones took it."""
    shares = rans.quantised(np.array(counts, np.int64), bits)
    assert shares.sum() == 1 << bits
    assert shares.min() >= 1
    exact = np.array(counts) * (2.0**bits / sum(counts))
    if exact.min() >= 1:
        assert np.abs(shares - exact).max() <= 1


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 63, 4095, 4096, 4097, 4098, 4099, 65_536, 65_537])
def test_one_and_four_states_small_and_wide_words(k: int) -> None:
    for kind in ("sparse", "ternary", "bell"):
        round_trip(Ans(), *draws(kind, k), "10110")


def test_large_alphabets_are_split() -> None:
    """float32: 12 bits of sign, exponent and mantissa by their entropy, 20 as they are."""
    values = np.random.default_rng(6).normal(0, 1e-3, 20_000).astype(np.float32)
    numbers = values.view(np.uint32).astype(np.int64)
    bits = round_trip(Ans(), numbers, IEEE)
    upper = entropy(numbers >> 20)
    assert upper + 400_000 < bits < 1.005 * upper + 400_000 + 33 * np.unique(numbers >> 20).size
    assert bits < 20_000 * 28


def test_a_message_by_hand() -> None:
    """Symbols 1, 0, 0 of two; b = 2, shares 3 and 1, so the least state is 1024.

    From the last: 0: (1024 // 3 << 2) + 1024 % 3 + 0 = 1365; 0: (455 << 2) + 0 = 1820; 1:
    (1820 << 2) + 0 + 3 = 7283, in 26 bits.
    """
    out = BitWriter()
    Ans().write_symbols(symbol_codes([1, 0, 0], 2), 2, out)
    table = "010" + "1 011"  # two symbols, all there are; order 0, the first share 3
    assert out.to_bytes() == from_bits(table + format(7283, "026b"))


def read(bits: str, k: int, alphabet: int) -> list[int]:
    reader = BitReader(from_bits(bits))
    return Ans().read_symbols(reader, k, alphabet).tolist()


def test_what_no_writer_wrote() -> None:
    table = "010" + "1 011"
    assert read(table + format(7283, "026b"), 3, 2) == [1, 0, 0]
    for bits, k, why in (
        (table + format(7282, "026b"), 3, "do not end where the writer's began"),
        (table + format(1023, "026b"), 3, "below the least"),
        (table + format(1 << 25, "026b"), 3, "do not end"),
        (table + format(1024, "026b"), 3, "run past"),
        (table + "0" * 20, 3, "ends early"),
        ("010" + "1 00100", 3, "sum to more than 3"),
        ("011", 3, "at most 2 can occur"),
        ("00100" + "1" * 60, 3, "at most 2 can occur"),
    ):
        with pytest.raises(PayloadError, match=why):
            read(bits, k, 2)

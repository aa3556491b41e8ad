"""Sample Huffman, with sparsity, and run-length Huffman (Gajjala et al. 2020)."""

import numpy as np
import pytest

from compressors import (
    BitReader,
    BitWriter,
    Huffman,
    PayloadError,
    RunLengthHuffman,
    SampleHuffman,
    SparseHuffman,
)
from compressors.coders.huffman import code_lengths
from compressors.coders.sample_huffman import run_probabilities, sampled, smoothed, whole_weights
from compressors.kernels import huffman
from tests.support.generators import from_bits
from tests.support.symbols import SHS, STRING, round_trip, symbol_codes

CODERS = (
    SampleHuffman(),
    SampleHuffman(50),
    SparseHuffman(1),
    SparseHuffman(5),
    SparseHuffman(70, fit=True),
    RunLengthHuffman(),
)
every_coder = pytest.mark.parametrize("code", CODERS, ids=repr)
P, OTHERS = 0.7, [0.05, 0.05, 0.2]  # the paper's example; gamma = 5


@every_coder
def test_more_symbols_than_the_sample(code) -> None:
    """Symbols that the sample never sees: rare ones, and a whole end."""
    numbers = np.zeros(30_000, np.int64)
    numbers[::997] = np.arange(31)
    numbers[29_990:] = 200
    round_trip(code, numbers, 256)
    round_trip(code, numbers, 1 << 32)


def test_the_sample_is_uniform_and_always_the_same() -> None:
    """10,000 draws over ten parts: 1000 each, standard deviation 30; five of them."""
    numbers = np.arange(10**6)
    drawn = sampled(numbers, 10_000)
    assert np.array_equal(drawn, sampled(numbers, 10_000))
    assert np.abs(np.bincount(drawn // 10**5, minlength=10) - 1000).max() < 150
    assert sampled(numbers[:10_000], 10_000).size == 10_000
    assert sampled(numbers[:10_001], 10_000).max() < 10_001


def test_one_is_added_to_every_state() -> None:
    symbols, weights = smoothed(np.array([0, 0, 3, 0]), 4, 10)
    assert symbols.tolist() == [0, 1, 2, 3]
    assert weights.tolist() == [4, 1, 1, 2]
    symbols, weights = smoothed(np.array([0, 0, 3, 0]), 5, 10)  # more states than symbols
    assert (symbols.tolist(), weights.tolist()) == ([0, 3], [4, 2])


def published(chances: list[float]) -> np.ndarray:
    return code_lengths(whole_weights(np.array(chances)))


def test_the_papers_example() -> None:
    runs = run_probabilities(P, 5)
    chances = [runs[0], *OTHERS, *runs[1:]]
    assert chances == pytest.approx(SHS, abs=1e-3)
    assert published(chances).tolist() == [2, 5, 5, 2, 3, 3, 4, 3]
    lengths = published(chances)
    assert (lengths * chances).sum() == pytest.approx(2.86203, abs=1e-5)


@pytest.mark.parametrize(
    ("code", "rate"),
    [(SparseHuffman(5), 1.6075), (SparseHuffman(5, fit=True), 1.5204), (Huffman(), 1.4)],
    ids=repr,
)
def test_messages_cost_that(code, rate: float) -> None:
    """On 40,000 independent symbols. A token's length varies by at most 2 around its mean, so
    the mean's standard error is below 0.01; a table of eight tokens takes less than 60 bits."""
    numbers = np.random.default_rng(4).choice(4, 40_000, p=[P, *OTHERS])
    bits = round_trip(code, numbers, 4)
    assert bits / 40_000 == pytest.approx(rate, abs=0.02)


def test_tokens_by_hand() -> None:
    """gamma = 3, alphabet 4: seven zeros are 3 + 3 + 1; a run of two is token 4, of three 5."""
    numbers = np.array([0] * 7 + [2, 0, 0, 1, 3, 0, 0, 0], np.uint8)
    tokens = np.empty(15, np.int64)
    count = huffman.zero_runs(numbers, 3, 4, tokens)
    assert tokens[:count].tolist() == [5, 5, 0, 2, 4, 1, 3, 5]
    count = huffman.zero_runs(numbers, 1, 4, tokens)
    assert tokens[:count].tolist() == numbers.tolist()


def test_figure_1_by_runs_bit_by_bit() -> None:
    """Symbols: three, all. Longest run 3. Tokens 00 and 000 (1, 2), 1 (3), 2 (6) of nine."""
    out = BitWriter()
    RunLengthHuffman().write_symbols(symbol_codes(STRING, 3), 3, out)
    table = "011" + "011" + "00100" + "1 010 1 1 011" + "010" + "1 1 1"
    tokens = "01 10 00 11 01 10 00"  # canonical, by token: 00, 01, 10, 11
    assert out.to_bytes() == from_bits(table + tokens)


@pytest.mark.parametrize(
    ("code", "bits", "k", "why"),
    [
        (RunLengthHuffman(), "011 1" + "1" * 9, 2, "at most 2 can occur"),  # three among two
        (RunLengthHuffman(), "011 00101" + "1" * 9, 5, "a run of 5 and 2 others among 5"),
        (RunLengthHuffman(), "1 1 1 010" + "1 1 010" + "1" * 9, 5, "longer than what is left"),
        (RunLengthHuffman(), "011 1 011 1 1 011 0", 99, "run past"),
        (SparseHuffman(3), "1 1 00101", 4, "longer than what is left"),  # 3 + 3 zeros
        (SparseHuffman(3), "00110", 4, "at most 5 can occur"),
        (SampleHuffman(), "011 1 1 1", 4, "no complete"),
    ],
)
def test_what_no_writer_wrote(code, bits: str, k: int, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        code.read_symbols(BitReader(from_bits(bits)), k, 3)

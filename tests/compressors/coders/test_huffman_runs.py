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
    parse,
)
from compressors.coders.huffman import PrefixCode, code_lengths
from compressors.coders.runlength import runs_of
from compressors.coders.sample_huffman import (
    run_probabilities,
    sampled,
    smoothed,
    whole_weights,
)
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
@pytest.mark.parametrize("alphabet", [1, 2, 3, 1 << 15, 1 << 32])
def test_nothing_one_and_equal_symbols(code, alphabet: int) -> None:
    assert round_trip(code, [], alphabet) == 0
    for k in (1, 2, 100, 20_000):
        for symbol in {0, alphabet - 1}:
            bits = round_trip(code, [symbol] * k, alphabet)
            assert bits == 0 or alphabet > 1


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


def test_a_sample_of_all_costs_no_less_than_huffman() -> None:
    """And with every state in the message the smoothed weights rarely change a length."""
    numbers = np.minimum(np.random.default_rng(2).geometric(0.3, 9000) - 1, 14)
    best, smooth = round_trip(Huffman(), numbers, 15), round_trip(SampleHuffman(), numbers, 15)
    assert best <= smooth <= 1.01 * best


def published(chances: list[float]) -> np.ndarray:
    return code_lengths(whole_weights(np.array(chances)))


def test_the_papers_example() -> None:
    runs = run_probabilities(P, 5)
    chances = [runs[0], *OTHERS, *runs[1:]]
    assert chances == pytest.approx(SHS, abs=1e-3)
    assert published(chances).tolist() == [2, 5, 5, 2, 3, 3, 4, 3]
    lengths = published(chances)
    assert (lengths * chances).sum() == pytest.approx(2.86203, abs=1e-5)


def token_rates(p: float, others: list[float], gamma: int) -> np.ndarray:
    """Tokens a symbol of the source, in the code's order, if symbols are independent.

    A run of zeros begins (1 - p) p times a symbol and goes on with chance p: it has j
    whole runs of gamma or more with chance p**(j gamma - 1), and what is left at its end
    is i zeros with the chance of lengths i, i + gamma, i + 2 gamma ...
    """
    cycle = 1 - p**gamma
    left = [p ** (i - 1) * (1 - p) / cycle for i in range(1, gamma)]
    whole = p ** (gamma - 1) / cycle
    runs = [(1 - p) * p * rate for rate in [*left, whole]]
    return np.array([runs[0], *others, *runs[1:]])


def test_bits_a_source_symbol() -> None:
    """methods.md: 1.6075 as published, 1.5204 from true tokens, 1.4000 by plain Huffman."""
    rates = token_rates(P, OTHERS, 5)
    runs = run_probabilities(P, 5)
    as_published = published([runs[0], *OTHERS, *runs[1:]])
    assert (as_published * rates).sum() == pytest.approx(1.6075, abs=5e-5)
    fitted = published(rates / rates.sum())
    assert fitted.tolist() == [3, 3, 3, 2, 3, 4, 4, 3]
    assert (fitted * rates).sum() == pytest.approx(1.5204, abs=5e-5)
    assert (published([P, *OTHERS]) * [P, *OTHERS]).sum() == pytest.approx(1.4, abs=5e-5)


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


def test_fit_is_never_longer_but_for_the_table() -> None:
    numbers = np.random.default_rng(5).choice(4, 20_000, p=[0.97, 0.01, 0.01, 0.01])
    for gamma in (2, 5, 30):
        fitted = round_trip(SparseHuffman(gamma, fit=True), numbers, 4)
        assert fitted <= round_trip(SparseHuffman(gamma), numbers, 4) + 100


def test_figure_1_by_runs() -> None:
    """Seven runs, four of them distinct, each of length 2: 14 bits."""
    values, lengths = runs_of(np.array(STRING))
    assert list(zip(lengths.tolist(), values.tolist(), strict=True)) == [
        (3, 0),
        (1, 1),
        (2, 0),
        (1, 2),
        (3, 0),
        (1, 1),
        (2, 0),
    ]
    tokens, counts = np.unique(values * 3 + lengths - 1, return_counts=True)
    code = PrefixCode.best(tokens, counts)
    assert code.lengths.tolist() == [2, 2, 2, 2]
    assert code.bits(counts) == 14


def test_figure_1_by_runs_bit_by_bit() -> None:
    """Symbols: three, all. Longest run 3. Tokens 00 and 000 (1, 2), 1 (3), 2 (6) of nine."""
    out = BitWriter()
    RunLengthHuffman().write_symbols(symbol_codes(STRING, 3), 3, out)
    table = "011" + "011" + "00100" + "1 010 1 1 011" + "010" + "1 1 1"
    tokens = "01 10 00 11 01 10 00"  # canonical, by token: 00, 01, 10, 11
    assert out.to_bytes() == from_bits(table + tokens)


def test_long_runs_are_cheap() -> None:
    numbers = np.zeros(1_000_000, np.int64)
    assert round_trip(RunLengthHuffman(), numbers, 3) < 100
    numbers[::1000] = 1
    assert round_trip(RunLengthHuffman(), numbers, 3) < 2100  # two tokens in turn


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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("qsgd(7) | shs(0)", "shs: gamma is 0: give a whole number from 1 to 65536"),
        ("qsgd(7) | shs(2.5)", "shs: gamma is 2.5"),
        ("qsgd(7) | shs(5, fit=3)", "shs: fit is 3: true or false"),
        ("qsgd(7) | shs(5, sample=0)", "shs: sample is 0"),
        ("qsgd(7) | sh(0)", "sh: sample is 0: give a whole number from 1"),
        ("qsgd(7) | shs", "gamma"),
    ],
)
def test_settings_that_cannot_be(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)

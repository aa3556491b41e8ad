"""Sample Huffman, and sample Huffman with sparsity (Gajjala et al. 2020, sections 3.2 and 3.3)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import unsigned
from compressors.coders.huffman import PrefixCode, read_huffman_numbers
from compressors.coders.numbers import empty_numbers, number_codes, tally
from compressors.kernels import huffman
from compressors.kernels.noise import words
from compressors.settings import check_flags, check_whole, plain

_SEED = 2020  # of the sample: the same for every tensor, so that bytes follow from values alone
_UNIT = 2.0**32  # whole weights of probabilities
_MOST = 1 << 16  # zeros in a token


def sampled(numbers: np.ndarray, size: int) -> np.ndarray:
    """``size`` of the numbers, drawn uniformly with replacement; all where ``size`` is larger.

    Which ones is a function of how many there are.
    """
    k = numbers.size
    if k <= size:
        return numbers
    drawn = words(_SEED, np.arange(size)).astype(np.uint64)
    return numbers[(drawn * np.uint64(k) >> np.uint64(32)).astype(np.int64)]


def smoothed(numbers: np.ndarray, alphabet: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The symbols that get a code, rising, and one more than how often the sample has them.

    All of the alphabet, as in the paper; of one larger than the message, those that occur.
    """
    sample, counts = tally(sampled(numbers, size), alphabet)
    if alphabet <= max(numbers.size, 2):
        symbols = np.arange(alphabet)
    else:
        symbols = tally(numbers, alphabet)[0]
    weights = np.ones(symbols.size, np.int64)
    weights[np.searchsorted(symbols, sample)] += counts
    return symbols, weights


@dataclass(frozen=True)
class SampleHuffman:
    """A canonical Huffman code whose weights come from ``sample`` symbols, one added to each.

    The sample is drawn with replacement by a fixed counter-based noise; a message of at most
    ``sample`` symbols is counted whole. The table travels as in ``Huffman``.

    Raises ``ValueError`` unless ``sample`` is a whole number from 1 to 2**31 - 1.

    Source: Gajjala et al. 2020, section 3.2. "All quantization states" get the added one;
    where there are more states than symbols in the message, those that occur do.

    Example:
        >>> symbols = torch.tensor([0, 0, 1, 0, 3, 0, 0, 0], dtype=torch.uint8)
        >>> out = BitWriter()
        >>> SampleHuffman().write_symbols(symbols, 4, out)
        >>> SampleHuffman().read_symbols(BitReader(out.to_bytes()), 8, 4)
        tensor([0, 0, 1, 0, 3, 0, 0, 0], dtype=torch.uint8)
    """

    codec_id: ClassVar[str] = "sh"
    sample: int = 10_000

    def __post_init__(self) -> None:
        plain(self)
        check_whole("sh: sample", self.sample, 1, (1 << 31) - 1)

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        numbers = unsigned(codes)
        if alphabet > 1 and numbers.size:
            code = PrefixCode.best(*smoothed(numbers, alphabet, self.sample))
            code.write_table(alphabet, out)
            code.encode(numbers, alphabet, out)

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """The symbols; ``PayloadError`` where the table is not a code or codes run past the end."""
        return number_codes(read_huffman_numbers(bits, k, alphabet), alphabet)


def run_probabilities(zeros: float, gamma: int) -> np.ndarray:
    """Chances (gamma,) of runs of 1 to ``gamma`` zeros as the paper has them.

    p**i (1 - p) for i < gamma and p**gamma, if symbols are independent and zero with chance p.
    Products in order, so that every machine finds the same numbers.

    Example:
        >>> [round(p, 4) for p in run_probabilities(0.7, 5).tolist()]
        [0.21, 0.147, 0.1029, 0.072, 0.1681]
    """
    powers = np.multiply.accumulate(np.full(gamma, zeros))
    return np.append(powers[:-1] * (1.0 - zeros), powers[-1])


@dataclass(frozen=True)
class SparseHuffman:
    """Sample Huffman with sparsity: runs of up to ``gamma`` zeros (symbol 0) are tokens.

    A longer run is runs of ``gamma`` and the rest. Weights as published: the sample (as in
    ``SampleHuffman``) says how probable symbols are, and runs have the chances that follow if
    symbols are independent (``run_probabilities``). ``fit=True`` takes how often tokens occur
    in the whole message instead, and only those; without the table it is never longer.
    Tokens are numbered 0 (one zero), 1 to alphabet - 1, then runs of 2 to gamma; the table
    travels as in ``Huffman``.

    Raises ``ValueError`` unless ``gamma`` is a whole number from 1 to 2**16 and ``sample`` one
    from 1 to 2**31 - 1.

    Source: Gajjala et al. 2020, section 3.3.

    Example:
        >>> symbols = torch.tensor([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3], dtype=torch.uint8)
        >>> out = BitWriter()
        >>> SparseHuffman(5).write_symbols(symbols, 4, out)
        >>> SparseHuffman(5).read_symbols(BitReader(out.to_bytes()), 11, 4).tolist()
        [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3]
    """

    codec_id: ClassVar[str] = "shs"
    gamma: int
    fit: bool = False
    sample: int = 10_000

    def __post_init__(self) -> None:
        plain(self)
        check_whole("shs: gamma", self.gamma, 1, _MOST)
        check_whole("shs: sample", self.sample, 1, (1 << 31) - 1)
        check_flags("shs", fit=self.fit)

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        numbers = unsigned(codes)
        if alphabet == 1 or numbers.size == 0:
            return
        tokens, universe = np.empty(numbers.size, np.int64), alphabet + self.gamma - 1
        tokens = tokens[: huffman.zero_runs(numbers, self.gamma, alphabet, tokens)]
        if self.fit:
            code = PrefixCode.best(*tally(tokens, universe))
        else:
            symbols, weights = smoothed(numbers, alphabet, self.sample)
            if symbols[0] != 0:  # no zero in the message, but runs of them are in the code
                symbols, weights = np.append(0, symbols), np.append(1, weights)
            runs = run_probabilities(float(weights[0]) / float(weights.sum()), self.gamma)
            chances = np.concatenate((runs[:1], weights[1:] / weights.sum(), runs[1:]))
            both = np.append(symbols, np.arange(alphabet, universe))
            code = PrefixCode.best(both, whole_weights(chances))
        code.write_table(universe, out)
        code.encode(tokens, universe, out)

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """The symbols; ``PayloadError`` where the table is not a code or runs miss ``k``."""
        if alphabet == 1 or k == 0:
            return number_codes(np.zeros_like(empty_numbers(k, alphabet)), alphabet)
        universe = alphabet + self.gamma - 1
        code = PrefixCode.read_table(bits, universe, universe)
        zeros = code.symbols >= alphabet
        runs = np.where(zeros, code.symbols - alphabet + 2, 1)
        values = np.where(zeros, 0, code.symbols)
        numbers = empty_numbers(k, alphabet)
        code.decode_runs(bits, runs, values, numbers)
        return number_codes(numbers, alphabet)


def whole_weights(chances: np.ndarray) -> np.ndarray:
    """Probabilities as whole numbers of 2**-32, at least one."""
    return np.maximum(1, np.rint(chances * _UNIT)).astype(np.int64)

"""Huffman codes of symbols, of gaps between positions by classes, and of the bytes of indices."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from compressors.arraycache import keeps_arrays
from compressors.bits import BitReader, BitWriter
from compressors.coders import gaps
from compressors.coders.fixed import check_rising, check_sorted, unsigned
from compressors.coders.numbers import (
    check_below,
    empty_numbers,
    is_direct,
    number_codes,
    places_in,
    read_list,
    read_set,
    tally,
    write_list,
    write_set,
)
from compressors.errors import PayloadError
from compressors.kernels import huffman
from compressors.kernels.huffman import LONGEST, depths, from_steps


def code_lengths(weights: np.ndarray) -> np.ndarray:
    """Bits of each symbol (uint8) in an optimal prefix code for whole ``weights`` >= 1.

    One symbol has none. Where Huffman's code (1952) is longer than 32 bits, which takes weights
    that sum to more than 5.7 million, all weights are halved, rounded up, until it is not.

    Example:
        >>> code_lengths(np.array([10, 2, 1])).tolist()
        [1, 2, 2]
    """
    weights = np.asarray(weights, np.int64)
    if weights.size == 1:
        return np.zeros(1, np.uint8)
    order = np.argsort(weights, kind="stable")
    rising = weights[order]
    lengths = depths(rising)
    while int(lengths.max()) > LONGEST:
        rising = (rising + 1) >> 1
        lengths = depths(rising)
    by_symbol = np.empty(weights.size, np.uint8)
    by_symbol[order] = lengths
    return by_symbol


_PAST_THE_END = "Huffman codes run past the payload's end"


@dataclass(frozen=True, eq=False)
class PrefixCode:
    """A code of ``symbols`` (m,), rising whole numbers, by the ``lengths`` (m,) of their codes.

    The table that travels: how many symbols (gamma) and, unless all of the universe occur, the
    gaps between them; then the first length (gamma) and the steps from length to length, 0, -1,
    1, -2 ... as 1, 2, 3, 4 ... Gaps and steps are exponential Golomb codes, whose order goes
    before them. The last length is what completes the code, and does not travel; one symbol
    has none.
    """

    symbols: np.ndarray
    lengths: np.ndarray

    @classmethod
    def best(cls, symbols: np.ndarray, weights: np.ndarray) -> "PrefixCode":
        """The optimal code for these weights."""
        return cls(symbols, code_lengths(weights))

    def write_table(self, universe: int, out: BitWriter) -> None:
        """Writes the code of numbers below ``universe``."""
        write_set(self.symbols, universe, out)
        if self.symbols.size > 1:
            out.gamma(int(self.lengths[0]))
            steps = np.diff(self.lengths[:-1].astype(np.int64))
            write_list(np.where(steps < 0, -2 * steps, 2 * steps + 1), out)

    @classmethod
    def read_table(cls, bits: BitReader, universe: int, capacity: int) -> "PrefixCode":
        """The code, of at most ``capacity`` symbols; ``PayloadError`` unless it is complete."""
        symbols = read_set(bits, universe, capacity)
        m = symbols.size
        lengths = np.zeros(m, np.uint8)
        if m > 1:
            first = bits.gamma()
            steps = read_list(bits, m - 2, 2 * (LONGEST + 1) * m)
            if first > LONGEST or not from_steps(first, steps, lengths):
                raise PayloadError(f"the lengths of {m} codes make no complete prefix code")
        return cls(symbols, lengths)

    def bits(self, counts: np.ndarray) -> int:
        """Bits of a message in which the symbols occur ``counts`` (m,) times, without the table."""
        return int((self.lengths * counts).sum())

    def encode(self, numbers: np.ndarray, universe: int, out: BitWriter) -> None:
        """Writes ``numbers`` below ``universe``, all of them symbols of the code."""
        longest = int(self.lengths.max())
        if longest == 0:
            return
        check_below(numbers, universe)
        slots, size = self.symbols, universe
        if not is_direct(numbers.size, universe):
            numbers = places_in(numbers, self.symbols, universe)
            slots, size = np.arange(self.symbols.size), self.symbols.size
        out.reserve(numbers.size * longest)
        entries = huffman.book(self.lengths, slots, size)
        out.position = huffman.encode_huffman(numbers, entries, out.words, out.position)

    def decode(self, bits: BitReader, out: np.ndarray) -> None:
        """Fills ``out`` (unsigned) with the next numbers; ``PayloadError`` past the end."""
        tables = huffman.tables(self.symbols, self.lengths)
        longest = int(self.lengths.max())
        bits.decode(huffman.decode_huffman, tables, longest, out, refusals=[_PAST_THE_END])

    def decode_runs(
        self, bits: BitReader, runs: np.ndarray, values: np.ndarray, out: np.ndarray
    ) -> None:
        """Fills ``out`` where the i-th symbol means ``runs[i]`` (>= 1) times ``values[i]``."""
        tables = huffman.tables(np.arange(self.symbols.size), self.lengths)
        refusals = [_PAST_THE_END, "a run of symbols is longer than what is left of the tensor"]
        bits.decode(huffman.decode_run_tokens, tables, runs, values, out, refusals=refusals)

    def check_room(self, bits: BitReader, k: int) -> None:
        """Raises ``PayloadError`` unless ``k`` codes can follow: before memory is taken."""
        bits.need(k * int(self.lengths.min()))


@dataclass(frozen=True)
class Huffman:
    """Canonical Huffman codes (Huffman 1952) by how often symbols occur in this tensor.

    The table (``PrefixCode``) travels and is counted. Codes have at most 32 bits. One distinct
    symbol takes no bits but the table.

    As a position code: gaps by classes, octaves of up to eight parts (``coders/gaps.py``).
    The classes are symbols as above, then the low bits of all gaps follow as they are.

    Source: Gajjala et al. 2020, section 2.2.

    Example:
        >>> out = BitWriter()
        >>> symbols = torch.tensor([0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0], dtype=torch.uint8)
        >>> Huffman().write_symbols(symbols, 3, out)
        >>> out.position  # 16 bits, and 8 of table: three symbols, lengths 1 and 2, then 2
        24
    """

    codec_id: ClassVar[str] = "huffman"
    needs_seed: ClassVar[bool] = False

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        write_huffman_numbers(unsigned(codes), alphabet, out)

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """The symbols; ``PayloadError`` where the table is not a code or codes run past the end."""
        return number_codes(read_huffman_numbers(bits, k, alphabet), alphabet)

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        gaps.write_gaps(indices, n, out, write_huffman_numbers)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where codes run past the end or past n."""
        return gaps.read_gaps(bits, n, k, read_huffman_numbers)


def write_huffman_numbers(numbers: np.ndarray, universe: int, out: BitWriter) -> None:
    """The table of a Huffman code for ``numbers`` below ``universe``, and their codes."""
    if numbers.size == 0 or universe == 1:
        return
    code = PrefixCode.best(*tally(numbers, universe))
    code.write_table(universe, out)
    code.encode(numbers, universe, out)


def read_huffman_numbers(bits: BitReader, k: int, universe: int) -> np.ndarray:
    """What ``write_huffman_numbers`` wrote, ``k`` numbers."""
    if k == 0 or universe == 1:
        return np.zeros_like(empty_numbers(k, universe))
    code = PrefixCode.read_table(bits, universe, universe)
    code.check_room(bits, k)
    numbers = empty_numbers(k, universe)
    code.decode(bits, numbers)
    return numbers


def byte_counts(n: int, width: int) -> np.ndarray:
    """How often each byte (256,) occurs in the numbers 0 to n - 1 of ``width`` bytes each.

    Example:
        >>> byte_counts(3, 4)[:4].tolist()
        [10, 1, 1, 0]
    """
    counts = np.zeros(256, np.int64)
    for place in range(width):
        unit = 256**place
        cycles, remainder = divmod(n, 256 * unit)
        counts += cycles * unit
        counts += np.clip(remainder - unit * np.arange(256), 0, unit)
    return counts


@keeps_arrays
def _code(n: int) -> tuple[int, PrefixCode]:
    """Bytes per index, and the code of bytes."""
    width = max(4, ((n - 1).bit_length() + 7) // 8)
    counts = byte_counts(n, width)
    occur = np.flatnonzero(counts)
    return width, PrefixCode.best(occur, counts[occur])


@dataclass(frozen=True)
class IndexHuffman:
    """Indices as 32-bit numbers, the highest byte first, and one Huffman code for all bytes.

    The code is built from all indices 0 to n - 1 that a tensor of n entries has, as the
    paper says: both sides know it, and no table travels. An index of more than 2**32 entries
    has as many bytes as it needs.

    Source: Kostopoulou et al. 2021 (DeepReduce), appendix, "Huffman Encoding".

    Example:
        >>> out = BitWriter()
        >>> _ = IndexHuffman().write_positions(np.array([5, 200]), 256, out, 0)
        >>> out.position  # three zero bytes and another each
        24
    """

    codec_id: ClassVar[str] = "index_huffman"
    needs_seed: ClassVar[bool] = False

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        if indices.size:
            width, code = _code(n)
            big = np.ascontiguousarray(indices.astype(">u8")).view(np.uint8).reshape(-1, 8)
            code.encode(np.ascontiguousarray(big[:, 8 - width :]).reshape(-1), 256, out)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where they do not rise below n, or end early."""
        if k == 0:
            return np.empty(0, np.int64)
        width, code = _code(n)
        code.check_room(bits, k * width)
        flat = np.empty(k * width, np.uint8)
        code.decode(bits, flat)
        big = np.zeros((k, 8), np.uint8)
        big[:, 8 - width :] = flat.reshape(k, width)
        return check_sorted(big.view(">u8")[:, 0].astype(np.int64), n)


def _most_bytes(n: int) -> int:
    return max(1, ((n - 1).bit_length() + 7) // 8)


@dataclass(frozen=True)
class DeltaHuffman:
    """Differences of indices, each in as few whole bytes as hold it, and how many by Huffman.

    The first key is the first index itself, every other the step from the index before. Byte
    counts less one are Huffman symbols with their table (``Huffman``), of an alphabet as
    large as the bytes that n - 1 takes; then come the bytes of all keys, the highest first.

    Source: delta-binary keys of SketchML (Jiang et al. 2018), whose byte flags SKCompress
    (Jiang et al. 2020) codes by Huffman.

    Example:
        >>> out = BitWriter()
        >>> _ = DeltaHuffman().write_positions(np.array([5, 7, 600]), 1000, out, 0)
        >>> out.position  # 2 + 1 bits of table, 3 of counts, 4 bytes: 5, 2, and 593 in two
        39
    """

    codec_id: ClassVar[str] = "delta_huffman"
    needs_seed: ClassVar[bool] = False

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        check_rising(indices, n)
        if indices.size == 0:
            return indices
        widest = _most_bytes(n)
        gaps.write_keys(indices, widest, out, lambda x: write_huffman_numbers(x, widest, out))
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where they do not rise below n, or end early."""
        if k == 0:
            return np.empty(0, np.int64)
        bits.need(8 * k)
        return gaps.read_keys(bits, read_huffman_numbers(bits, k, _most_bytes(n)), n)

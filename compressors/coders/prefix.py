"""Canonical Huffman codes: made from weights, written as lengths, applied to numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.coders.numbers import (
    check_below,
    is_direct,
    ranks,
    read_list,
    read_set,
    write_list,
    write_set,
)
from compressors.errors import PayloadError
from compressors.kernels import huffman
from compressors.kernels.lengths import LONGEST, depths, from_steps


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
            numbers = ranks(numbers, self.symbols, universe)
            slots, size = np.arange(self.symbols.size), self.symbols.size
        out.reserve(numbers.size * longest)
        entries = huffman.book(self.lengths, slots, size)
        out.position = huffman.encode(numbers, entries, out.words, out.position)

    def decode(self, bits: BitReader, out: np.ndarray) -> None:
        """Fills ``out`` (unsigned) with the next numbers; ``PayloadError`` past the end."""
        tables = huffman.tables(self.symbols, self.lengths)
        longest = int(self.lengths.max())
        self._move(bits, huffman.decode(
            bits.words, bits.position, bits.end, tables, longest, out))  # fmt: skip

    def decode_runs(
        self, bits: BitReader, runs: np.ndarray, values: np.ndarray, out: np.ndarray
    ) -> None:
        """Fills ``out`` where the i-th symbol means ``runs[i]`` (>= 1) times ``values[i]``."""
        tables = huffman.tables(np.arange(self.symbols.size), self.lengths)
        self._move(bits, huffman.decode_runs(
            bits.words, bits.position, bits.end, tables, runs, values, out))  # fmt: skip

    def check_room(self, bits: BitReader, k: int) -> None:
        """Raises ``PayloadError`` unless ``k`` codes can follow: before memory is taken."""
        bits.need(k * int(self.lengths.min()))

    def _move(self, bits: BitReader, position: Any) -> None:
        if position == -1:
            raise PayloadError("Huffman codes run past the payload's end")
        if position < 0:
            raise PayloadError("a run of symbols is longer than what is left of the tensor")
        bits.position = int(position)

"""Run-length coding of positions (a bitmap's runs) and of symbols."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import UNSIGNED, check_rising, unsigned
from compressors.coders.huffman import PrefixCode
from compressors.coders.numbers import (
    empty_numbers,
    number_codes,
    places_in,
    read_set,
    tally,
    write_set,
)
from compressors.errors import PayloadError
from compressors.kernels import runlength
from compressors.parts import code_dtype


@dataclass(frozen=True)
class RunLength:
    """Runs in Elias gamma codes: for positions of the bitmap's bits, for symbols of equal ones.

    Positions: a bit that says whether entry 0 is sent, then the lengths of the runs of
    sent and other entries by turns; the run behind the last sent entry is left out.
    Symbols: (run, symbol) pairs, the symbol in ceil(log2 alphabet) bits, until k symbols
    are complete.

    Source: Gajjala et al. 2020 (section 2.1, widths are not given there); DeepReduce
    (Kostopoulou et al. 2021), appendix on run-length coding of the bitmap.

    Example:
        >>> out = BitWriter()
        >>> _ = RunLength().write_positions(np.array([2, 3, 4]), 9, out, 0)
        >>> f"{out.to_bytes()[0]:08b}"[: out.position]  # zeros first, 2 of them, 3 ones
        '0010011'
    """

    codec_id: ClassVar[str] = "rle"
    needs_seed: ClassVar[bool] = False

    def position_bits(self, indices: np.ndarray, n: int) -> int:
        return 1 + int(runlength.run_bits(runlength.bitmap_runs(indices))) if indices.size else 0

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        check_rising(indices, n)
        if indices.size:
            runs = runlength.bitmap_runs(indices)
            out.uint(int(runs[0] == 0), 1)
            out.reserve(int(runlength.run_bits(runs)))
            out.position = runlength.encode_runs(runs, out.words, out.position)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where runs pass the payload's end, n or k."""
        if k == 0:
            return np.empty(0, np.int64)
        one = bool(bits.uint(1))
        what = f"{k} sent entries of {n}"
        return _decoded(bits, k, np.int64, runlength.decode_runs, (n, k, one), what)

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes the pairs; nothing for an alphabet of one."""
        if alphabet == 1:
            return
        numbers, width = unsigned(codes), _width(alphabet)
        out.reserve(int(runlength.symbol_bits(numbers, width)))
        out.position = runlength.encode_run_pairs(numbers, width, out.words, out.position)

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """``PayloadError`` where runs pass the payload's end or k, or for no symbol."""
        dtype = code_dtype(alphabet)
        if alphabet == 1 or k == 0:
            return torch.zeros(k, dtype=dtype, device="cpu")
        what = f"{k} symbols of an alphabet of {alphabet}"
        settings, kernel = (k, alphabet, _width(alphabet)), runlength.decode_run_pairs
        numbers = _decoded(bits, k, UNSIGNED[dtype], kernel, settings, what)
        return torch.from_numpy(numbers).view(dtype)


def _width(alphabet: int) -> int:
    return (alphabet - 1).bit_length()


def _decoded(
    bits: BitReader, k: int, dtype: Any, kernel: Any, settings: tuple[int, ...], what: str
) -> np.ndarray:
    """``k`` numbers as a kernel reads them: a dry run first, where few bits mean many of them."""
    refusals, start = [f"runs run past the payload's end or past {what}"], bits.position
    if k > bits.end - start:
        bits.decode(kernel, *settings, np.empty(0, dtype), refusals=refusals)
        bits.position = start
    numbers = np.empty(k, dtype)
    bits.decode(kernel, *settings, numbers, refusals=refusals)
    return numbers


def runs_of(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The runs of equal ``numbers`` (k,), k > 0: what is repeated, and how often (int64).

    Example:
        >>> values, lengths = runs_of(np.array([0, 0, 0, 1, 0, 0]))
        >>> values.tolist(), lengths.tolist()
        ([0, 1, 0], [3, 1, 2])
    """
    starts = np.append(0, np.flatnonzero(numbers[1:] != numbers[:-1]) + 1)
    return numbers[starts], np.diff(starts, append=numbers.size)


@dataclass(frozen=True)
class RunLengthHuffman:
    """Runs of equal symbols, each pair of a symbol and a length coded by Huffman as one token.

    Layout: which symbols occur (as in ``Huffman``'s table), the longest run (gamma), the table
    of the code, whose numbers are rank of the symbol * longest run + length - 1, and the tokens.
    The reader stops where the runs have filled the tensor.

    Source: Gajjala et al. 2020, section 3.1 and Figure 1.

    Example:
        >>> symbols = torch.tensor([0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0], dtype=torch.uint8)
        >>> out = BitWriter()
        >>> RunLengthHuffman().write_symbols(symbols, 3, out)
        >>> bits = BitReader(out.to_bytes())
        >>> RunLengthHuffman().read_symbols(bits, 13, 3).tolist()
        [0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0]
    """

    codec_id: ClassVar[str] = "rlh"

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        numbers = unsigned(codes)
        if alphabet == 1 or numbers.size == 0:
            return
        values, lengths = runs_of(numbers)
        distinct = tally(values, alphabet)[0]
        longest = int(lengths.max())
        write_set(distinct, alphabet, out)
        out.gamma(longest)
        tokens = places_in(values, distinct, alphabet) * longest + lengths - 1
        universe = distinct.size * longest
        code = PrefixCode.best(*tally(tokens, universe))
        code.write_table(universe, out)
        code.encode(tokens, universe, out)

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """The symbols; ``PayloadError`` where a table is not a code or runs do not end at ``k``."""
        if alphabet == 1 or k == 0:
            return number_codes(np.zeros_like(empty_numbers(k, alphabet)), alphabet)
        distinct = read_set(bits, alphabet, k)
        longest = bits.gamma()
        if longest > k - distinct.size + 1:
            raise PayloadError(f"a run of {longest} and {distinct.size - 1} others among {k}")
        code = PrefixCode.read_table(bits, distinct.size * longest, k)
        ranked, run_lengths = np.divmod(code.symbols, longest)
        numbers = empty_numbers(k, alphabet)
        code.decode_runs(bits, run_lengths + 1, distinct[ranked], numbers)
        return number_codes(numbers, alphabet)

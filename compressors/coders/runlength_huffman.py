"""Run-length Huffman (Gajjala et al. 2020, section 3.1)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import unsigned
from compressors.coders.numbers import (
    codes_of,
    empty_numbers,
    ranks,
    read_set,
    tally,
    write_set,
)
from compressors.coders.prefix import PrefixCode
from compressors.errors import PayloadError


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
        >>> RunLengthHuffman().read_symbols(bits, 13, 3, symbols.device).tolist()
        [0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0]
    """

    codec_id: ClassVar[str] = "rlh"

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes every symbol exactly."""
        numbers = unsigned(codes)
        if alphabet == 1 or numbers.size == 0:
            return
        values, lengths = runs_of(numbers)
        distinct = tally(values, alphabet)[0]
        longest = int(lengths.max())
        write_set(distinct, alphabet, out)
        out.gamma(longest)
        tokens = ranks(values, distinct, alphabet) * longest + lengths - 1
        universe = distinct.size * longest
        code = PrefixCode.best(*tally(tokens, universe))
        code.write_table(universe, out)
        code.encode(tokens, universe, out)

    def read_symbols(
        self, bits: BitReader, k: int, alphabet: int, device: torch.device
    ) -> Tensor:
        """The symbols; ``PayloadError`` where a table is not a code or runs do not end at ``k``."""
        if alphabet == 1 or k == 0:
            return codes_of(np.zeros_like(empty_numbers(k, alphabet)), alphabet, device)
        distinct = read_set(bits, alphabet, k)
        longest = bits.gamma()
        if longest > k - distinct.size + 1:
            raise PayloadError(f"a run of {longest} and {distinct.size - 1} others among {k}")
        code = PrefixCode.read_table(bits, distinct.size * longest, k)
        ranked, run_lengths = np.divmod(code.symbols, longest)
        numbers = empty_numbers(k, alphabet)
        code.decode_runs(bits, run_lengths + 1, distinct[ranked], numbers)
        return codes_of(numbers, alphabet, device)

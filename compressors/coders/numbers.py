"""What entropy coders share: numbers, how often they occur, and lists in tables."""

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import UNSIGNED
from compressors.errors import PartError, PayloadError
from compressors.kernels import elias, huffman
from compressors.parts import code_dtype

_DIRECT = 1 << 20  # numbers that are worth a table of their own


def empty_numbers(k: int, alphabet: int) -> np.ndarray:
    """Room for ``k`` numbers below ``alphabet``, as ``number_codes`` takes them."""
    return np.empty(k, UNSIGNED[code_dtype(alphabet)])


def number_codes(numbers: np.ndarray, alphabet: int) -> Tensor:
    """The numbers as codes; ``PayloadError`` where one is outside the alphabet."""
    if numbers.size and int(numbers.max()) >= alphabet:
        raise PayloadError(f"symbol {int(numbers.max())} is outside an alphabet of {alphabet}")
    return torch.from_numpy(numbers).view(code_dtype(alphabet))


def is_direct(k: int, universe: int) -> bool:
    """Whether a table of all numbers below ``universe`` is worth it for ``k`` of them."""
    return universe <= min(_DIRECT, 256 + 4 * k)


def check_below(numbers: np.ndarray, universe: int) -> None:
    """``PartError`` unless all ``numbers`` lie from 0 to universe - 1: kernels count in a table."""
    if not numbers.size:
        return
    low, high = 0 if numbers.dtype.kind == "u" else int(numbers.min()), int(numbers.max())
    if low < 0 or high >= universe:
        raise PartError(
            f"symbols from {low} to {high} to write: in an alphabet of {universe} the last one is "
            f"{universe - 1}"
        )


def tally(numbers: np.ndarray, universe: int) -> tuple[np.ndarray, np.ndarray]:
    """Which numbers below ``universe`` occur, rising, and how often; both int64 (m,)."""
    check_below(numbers, universe)
    if is_direct(numbers.size, universe):
        counts = huffman.symbol_counts(numbers, universe)
        occur = np.flatnonzero(counts)
        return occur, counts[occur]
    occur, counts = np.unique(numbers, return_counts=True)
    return occur.astype(np.int64), counts.astype(np.int64)


def places_in(numbers: np.ndarray, symbols: np.ndarray, universe: int) -> np.ndarray:
    """The place of each of ``numbers`` in ``symbols`` (rising), which has all of them."""
    if is_direct(numbers.size, universe):
        places = np.zeros(universe, np.int64)
        places[symbols] = np.arange(symbols.size)
        return places[numbers]
    return np.searchsorted(symbols, numbers)


def write_list(values: np.ndarray, out: BitWriter) -> None:
    """Whole numbers >= 1 (int64): the order as a gamma code of it plus one, then the codes."""
    if values.size == 0:
        return
    order, bits = elias.best_order(values)
    out.gamma(int(order) + 1)
    out.reserve(int(bits))
    out.position = elias.encode_exp_golomb(out.words, out.position, values, order)


def read_list(bits: BitReader, count: int, capacity: int) -> np.ndarray:
    """``count`` numbers; ``PayloadError`` where their sum is above ``capacity`` (below 2**62)."""
    if count == 0:
        return np.empty(0, np.int64)
    order = bits.gamma() - 1
    if order > elias.MAX_BITS:
        raise PayloadError(f"a code table's numbers have order {order}: none is that large")
    bits.need(count * (1 + order))
    values = np.empty(count, np.int64)
    refusals = [
        "a code table runs past the payload's end",
        f"the numbers of a code table sum to more than {capacity}",
    ]
    bits.decode(elias.decode_exp_golomb, order, capacity, values, refusals=refusals)
    return values


def write_set(symbols: np.ndarray, universe: int, out: BitWriter) -> None:
    """Which numbers below ``universe`` occur: how many (gamma), and unless all do, their gaps."""
    out.gamma(symbols.size)
    if symbols.size < universe:
        write_list(np.diff(symbols, prepend=-1), out)


def read_set(bits: BitReader, universe: int, capacity: int) -> np.ndarray:
    """The numbers (int64, rising), 1 to ``capacity`` of them."""
    m = bits.gamma()
    if m > min(capacity, universe):
        largest = min(capacity, universe)
        raise PayloadError(f"a code table of {m} symbols: at most {largest} can occur")
    if m == universe:
        bits.need(m - 2)  # their lengths: no memory is taken for what cannot be there
        return np.arange(m, dtype=np.int64)
    return np.cumsum(read_list(bits, m, universe)) - 1

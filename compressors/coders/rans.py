"""Range ANS of symbols, of gaps between positions by classes, and of the exponents of floats."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.coders import gaps
from compressors.coders.fixed import unsigned
from compressors.coders.numbers import (
    empty_numbers,
    number_codes,
    places_in,
    read_list,
    read_set,
    tally,
    write_list,
    write_set,
)
from compressors.errors import PayloadError
from compressors.kernels import rans
from compressors.parts import IEEE

_MOST = 1 << 12  # symbols of a model, and the largest alphabet that is coded whole
_COUNTED = 1 << 16  # alphabets that are counted by a table; of larger ones a look decides
_LOOK = 1 << 10  # symbols that are looked at: where more than half differ, many occur
_FEW = 4  # symbols occur where there are this many times as many in the message
_TOTAL, _WIDE = 16, 20  # bits of a model's total at most
_RARE = 64  # symbols whose least share, larger than they deserve, would cost too much
_MANY = 1 << 12  # symbols from which four states take turns


@dataclass(frozen=True)
class Ans:
    """Range ANS with a static model of how often symbols occur in this tensor.

    Layout: which symbols occur (``Huffman``'s table has it, too), their shares of 2**b except
    the last (a list of exponential Golomb codes), the state, or from 2**12 symbols four states,
    in b + 24 bits each, and words of 16 bits; b = min(16, bits of k - 1). From 2**16 + 1 symbols
    a bit goes first: 1 makes it b = min(20, bits of k - 1) and words and states 16 bits longer,
    for models with one symbol above 7/8 or more than 64 below 2**-16. One distinct symbol takes
    no bits but the table. The states the reader ends with are known: others are refused.

    With an alphabet above 2**12 a bit says first whether few symbols occur: at most 2**12, each
    four times on average (above 2**16, as far as a look at 2**10 of them shows that). Where
    not, symbols are split: the upper 12 bits are coded so, then all lower bits come as they are.

    As a position code: gaps by classes (``coders/gaps.py``), then their low bits.

    Source: Duda 2009 (arXiv 0902.0271), range variant.

    Example:
        >>> symbols = (torch.arange(6000) % 40 == 0).to(torch.uint8)
        >>> out = BitWriter()
        >>> Ans().write_symbols(symbols, 2, out)
        >>> out.position  # the entropy is 1012 bits
        1148
    """

    codec_id: ClassVar[str] = "ans"
    needs_seed: ClassVar[bool] = False

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        numbers = unsigned(codes)
        if alphabet == 1 or numbers.size == 0:
            return
        low = _low_bits(alphabet)
        if low:
            few = _few_occur(numbers, alphabet)
            out.uint(int(few), 1)
            low = 0 if few else low
        write_rans_numbers(numbers >> low if low else numbers, ((alphabet - 1) >> low) + 1, out)
        if low:
            out.uints(numbers, low)

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """The symbols; ``PayloadError`` where the model is damaged or words run past the end."""
        if alphabet == 1 or k == 0:
            return number_codes(np.zeros_like(empty_numbers(k, alphabet)), alphabet)
        low = _low_bits(alphabet)
        if low and bits.uint(1):
            low = 0
        numbers = read_rans_numbers(bits, k, ((alphabet - 1) >> low) + 1)
        if low:
            lower = bits.uints(k, low, empty_numbers(0, alphabet).dtype)
            lower |= numbers.astype(lower.dtype) << lower.dtype.type(low)
            numbers = lower
        return number_codes(numbers, alphabet)

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        gaps.write_gaps(indices, n, out, write_rans_numbers)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where words run past the end or gaps past n."""
        return gaps.read_gaps(bits, n, k, read_rans_numbers)


def _low_bits(alphabet: int) -> int:
    return max(0, (alphabet - 1).bit_length() - 12)


def _few_occur(numbers: np.ndarray, alphabet: int) -> bool:
    """Whether a model of single symbols is worth its table."""
    capacity = min(_MOST, numbers.size // _FEW)
    if alphabet > _COUNTED:
        look = numbers[:: max(1, numbers.size // _LOOK)]
        if 2 * np.unique(look).size > max(2, look.size):
            return False
    return tally(numbers, alphabet)[0].size <= capacity


def _sizes(k: int, wide: bool) -> tuple[int, int]:
    """Bits of the total, and of a word."""
    return min(_WIDE if wide else _TOTAL, (k - 1).bit_length()), 32 if wide else 16


def _starts(shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares and where they start, as the kernels take them."""
    return shares.astype(np.uint64), (np.cumsum(shares) - shares).astype(np.uint64)


def _states(k: int) -> np.ndarray:
    return np.empty(4 if k >= _MANY else 1, np.uint64)


def write_rans_numbers(numbers: np.ndarray, universe: int, out: BitWriter) -> None:
    """The model of ``numbers`` below ``universe`` (at most 2**16 occur), and what they are."""
    k = numbers.size
    if k == 0 or universe == 1:
        return
    symbols, counts = tally(numbers, universe)
    write_set(symbols, universe, out)
    if symbols.size == 1:
        return
    wide = False
    if k > 1 << _TOTAL:  # shares of 2**-16 may be too coarse
        rare = np.count_nonzero((counts << _TOTAL) < k)
        wide = bool(8 * int(counts.max()) > 7 * k or rare > _RARE)
        out.uint(int(wide), 1)
    b, word = _sizes(k, wide)
    shares = rans.quantised(counts, b)
    write_list(shares[:-1], out)
    states, stack = _states(k), np.empty(k + 1, np.uint32)
    if universe <= _COUNTED:  # shares by number, zero where it does not occur
        by_number = np.zeros(universe, np.int64)
        by_number[symbols] = shares
    else:
        by_number, numbers = shares, places_in(numbers, symbols, universe)
    filled = rans.encode_rans(numbers, *_starts(by_number), b, word, states, stack)
    out.uints(states, b + word + rans.SLACK)
    out.uints(stack[:filled][::-1], word)


def read_rans_numbers(bits: BitReader, k: int, universe: int) -> np.ndarray:
    """What ``write_rans_numbers`` wrote, ``k`` numbers."""
    if k == 0 or universe == 1:
        return np.zeros_like(empty_numbers(k, universe))
    symbols = read_set(bits, universe, k)
    if symbols.size == 1:
        return np.full_like(empty_numbers(k, universe), symbols[0])
    b, word = _sizes(k, k > 1 << _TOTAL and bool(bits.uint(1)))
    shares = read_list(bits, symbols.size - 1, (1 << b) - 1)
    shares = np.append(shares, (1 << b) - shares.sum())
    states = bits.uints(_states(k).size, b + word + rans.SLACK)
    least = np.uint64(1 << b + rans.SLACK)
    if (states < least).any():
        raise PayloadError("an ANS state is below the least there is")
    model, numbers = (rans.slots(shares), *_starts(shares)), empty_numbers(k, universe)
    refusal = "ANS words run past the payload's end"
    arguments = (model, symbols, b, word, states, numbers)
    bits.decode(rans.decode_rans, *arguments, refusals=[refusal])
    if (states != least).any():
        raise PayloadError("ANS states do not end where the writer's began")
    return numbers


@dataclass(frozen=True)
class Exponents:
    """The exponents of float32 numbers by range ANS; signs and mantissas in 24 bits each.

    Only the exponents of an update's values are far from random: a few of 256 occur. General coders
    gain from floats there, so this is the reference of methods without error (as in DietGPU,
    Johnson 2022, and ZipNN, Hershcovitch et al. 2024, https://arxiv.org/abs/2411.05239). Symbols of
    any other alphabet are coded by ``ans``.

    Example:
        >>> from compressors import compress, parse
        >>> x = {"w": torch.linspace(1, 2, 4097)[:4096]}
        >>> packet, _ = compress(parse("float32 | exponents"), x)
        >>> torch.equal(packet.sent["w"].decoded, x["w"]), packet.spans["values"] < 25 * 4096
        (True, True)
    """

    codec_id: ClassVar[str] = "exponents"
    needs_seed: ClassVar[bool] = False

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        if alphabet != IEEE:
            Ans().write_symbols(codes, alphabet, out)
            return
        numbers = unsigned(codes)
        middle = (numbers >> np.uint32(23)).astype(np.uint8)  # a byte: the sign falls off
        Ans().write_symbols(torch.from_numpy(middle), 256, out)
        fractions = (numbers & np.uint32(0x7FFFFF)) | (numbers >> np.uint32(31) << np.uint32(23))
        out.uints(fractions, 24)

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        if alphabet != IEEE:
            return Ans().read_symbols(bits, k, alphabet)
        middle = Ans().read_symbols(bits, k, 256).numpy().astype(np.uint32)
        fractions = bits.uints(k, 24, np.uint32)
        numbers = (middle << np.uint32(23)) | (fractions & np.uint32(0x7FFFFF))
        numbers |= fractions >> np.uint32(23) << np.uint32(31)
        return torch.from_numpy(numbers.view(np.int32))

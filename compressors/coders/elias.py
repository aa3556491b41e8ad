"""Elias codes of gaps and of symbols: gamma, delta and omega (Elias 1975)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import UNSIGNED, check_rising, unsigned
from compressors.kernels import elias as kernel
from compressors.parts import code_dtype

_WINDOW = 12  # bits that tell the length of any number below 2**63 in delta and omega


def _binary(v: int) -> str:
    return format(v, "b")


def gamma_word(v: int) -> str:
    """The Elias gamma code of ``v`` >= 1, as text.

    Example:
        >>> [gamma_word(v) for v in (1, 2, 5)]
        ['1', '010', '00101']
    """
    return "0" * (v.bit_length() - 1) + _binary(v)


def delta_word(v: int) -> str:
    """The Elias delta code of ``v`` >= 1, as text.

    Example:
        >>> [delta_word(v) for v in (1, 2, 100)]
        ['1', '0100', '00111100100']
    """
    return gamma_word(v.bit_length()) + _binary(v)[1:]


def omega_word(v: int) -> str:
    """The Elias omega code of ``v`` >= 1, as text.

    Example:
        >>> [omega_word(v) for v in (1, 2, 4, 16)]
        ['0', '100', '101000', '10100100000']
    """
    word = "0"
    while v > 1:
        word, v = _binary(v) + word, v.bit_length() - 1
    return word


class _Tables(NamedTuple):
    """What the compiled loops know of a code (see ``kernels.elias``)."""

    heads: np.ndarray  # uint64 (64,), by the bits of the number
    widths: np.ndarray  # int64 (2, 64): of the heads and of the tails
    lengths: np.ndarray  # uint8 (4096,), by the next 12 bits, or empty
    shift: np.uint64  # zeros behind the number

    def bits(self, counts: np.ndarray) -> int:
        """Bits that ``counts`` (64,) of numbers take, by their own number of bits."""
        return int(counts @ self.widths.sum(0))


def _tables(
    word: Callable[[int], str], tails: int, shift: int, whole_words: dict[str, int]
) -> _Tables:
    """The tables of a code whose tail is ``tails`` bits longer than the number."""
    widths = np.zeros((2, 64), np.int64)
    heads = np.zeros(64, np.uint64)
    for length in range(1, 64):
        codeword = word(1 << (length - 1))
        tail = 1 if codeword == "0" else length + tails  # omega(1) is nothing but the last zero
        widths[:, length] = len(codeword) - tail, tail
        heads[length] = int("0" + codeword[: len(codeword) - tail], 2)
    lengths = np.zeros(1 << _WINDOW if whole_words else 0, np.uint8)
    for start, whole_length in whole_words.items():  # every window with that beginning
        free = _WINDOW - len(start)
        lengths[int(start, 2) << free : (int(start, 2) + 1) << free] = whole_length
    return _Tables(heads, widths, lengths, np.uint64(shift))


_SMALL = {omega_word(v): v.bit_length() for v in range(1, 64)}  # whole words of at most 12 bits
_LARGE = {omega_word(length - 1)[:-1] + "1": length for length in range(7, 64)}
_GAMMA = _tables(gamma_word, 0, 0, {})
_DELTA = _tables(delta_word, -1, 0, {gamma_word(length): length for length in range(1, 64)})
OMEGA = _tables(omega_word, 1, 1, _SMALL | _LARGE)


class _Elias:
    """Gaps between positions (the first counts from -1), or symbols + 1, in an Elias code."""

    needs_seed: ClassVar[bool] = False
    _tables: ClassVar[_Tables]

    def position_bits(self, indices: np.ndarray, n: int) -> int:
        check_rising(indices, n)
        return self._tables.bits(kernel.count_lengths(indices, True))

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        check_rising(indices, n)
        self._write(indices, True, out)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where the code runs past the end or past n."""
        bits.need(k)  # the shortest code takes one bit
        return self._read(bits, n, True, np.empty(k, np.int64), f"past entry {n - 1}")

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes every symbol + 1; nothing for an alphabet of one."""
        if alphabet > 1:
            self._write(unsigned(codes), None, out)

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """``PayloadError`` where a symbol is outside the alphabet."""
        dtype = code_dtype(alphabet)
        if alphabet == 1:
            return torch.zeros(k, dtype=dtype, device="cpu")
        bits.need(k)
        numbers = np.empty(k, UNSIGNED[dtype])
        self._read(bits, alphabet, None, numbers, f"outside an alphabet of {alphabet}")
        return torch.from_numpy(numbers).view(dtype)

    def _write(self, items: np.ndarray, gaps: bool | None, out: BitWriter) -> None:
        """Writes sorted positions, by their ``gaps``, or symbols."""
        out.reserve(self._tables.bits(kernel.count_lengths(items, gaps)))
        heads, widths, _, shift = self._tables
        out.position = kernel.encode_items(
            items, gaps, out.words, out.position, heads, widths, shift
        )

    def _read(
        self, bits: BitReader, limit: int, gaps: bool | None, items: np.ndarray, reason: str
    ) -> np.ndarray:
        """Fills ``items``, all below ``limit``, with what ``_write`` wrote."""
        if items.size:
            _, widths, lengths, shift = self._tables
            arguments = (limit, gaps, items, lengths, widths, shift)
            refusal = f"Elias codes run past the payload's end or {reason}"
            bits.decode(kernel.decode_items, *arguments, refusals=[refusal])
        return items


@dataclass(frozen=True)
class EliasGamma(_Elias):
    """Elias gamma: 2 floor(log2 v) + 1 bits for a gap v, or for a symbol v - 1.

    Source: Elias 1975 (Universal codeword sets and representations of the integers).

    Example:
        >>> out = BitWriter()
        >>> EliasGamma().write_symbols(torch.tensor([0, 4], dtype=torch.uint8), 5, out)
        >>> f"{out.to_bytes()[0]:08b}"[: out.position]
        '100101'
    """

    codec_id: ClassVar[str] = "elias_gamma"
    _tables: ClassVar[_Tables] = _GAMMA


@dataclass(frozen=True)
class EliasDelta(_Elias):
    """Elias delta: the number of bits in gamma, then v without its first bit.

    Source: Elias 1975 (Universal codeword sets and representations of the integers).

    Example:
        >>> out = BitWriter()
        >>> EliasDelta().write_symbols(torch.tensor([99], dtype=torch.uint8), 256, out)
        >>> f"{int.from_bytes(out.to_bytes()):016b}"[: out.position]
        '00111100100'
    """

    codec_id: ClassVar[str] = "elias_delta"
    _tables: ClassVar[_Tables] = _DELTA


@dataclass(frozen=True)
class EliasOmega(_Elias):
    """Elias omega: v, before it v's number of bits less one, and so on down; then a zero.

    The Elias code that Gajjala et al. 2020 print is not uniquely decodable; this one, of
    symbol + 1, is. A quantizer that puts zero at symbol 0 and signs by zig-zag (``dither``)
    sends small values in few bits.

    Source: Elias 1975 (Universal codeword sets and representations of the integers).

    Example:
        >>> out = BitWriter()
        >>> EliasOmega().write_symbols(torch.tensor([0, 3], dtype=torch.uint8), 4, out)
        >>> f"{out.to_bytes()[0]:08b}"[: out.position]
        '0101000'
    """

    codec_id: ClassVar[str] = "elias_omega"
    _tables: ClassVar[_Tables] = OMEGA


@dataclass(frozen=True)
class EliasGaps:
    """The gap to each symbol that is not zero, its sign and its level. Zeros take nothing.

    Source: Alistarh et al. 2017 (QSGD, https://arxiv.org/abs/1610.02132), section 3.2 and
    appendix: Code_s, its format for few levels. Gaps (the first counts from before the first
    symbol) and levels are Elias omega codes, a sign is one bit, 1 for minus. Symbols are read as
    ``dither`` numbers them: 2j - 1 is minus level j, 2j is plus level j. The paper's decoder stops
    at the message's end. Here more may follow, so that one gap more ends the symbols: the one to
    the entry behind the last. No symbols take no bits.

    Example:
        >>> out = BitWriter()
        >>> EliasGaps().write_symbols(torch.tensor([0, 3, 0], dtype=torch.uint8), 5, out)
        >>> f"{out.to_bytes()[0]:08b}{out.to_bytes()[1]:08b}"[: out.position]
        '1001100100'
    """

    codec_id: ClassVar[str] = "elias_gaps"
    needs_seed: ClassVar[bool] = False

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes the symbols that are not zero; nothing for an alphabet of one."""
        numbers = unsigned(codes)
        if alphabet == 1 or numbers.size == 0:
            return
        heads, widths, _, shift = OMEGA
        out.reserve(kernel.elias_bits(numbers, widths.sum(0)))
        out.position = kernel.encode_elias(numbers, out.words, out.position, heads, widths, shift)

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """``PayloadError`` where a gap leaves the tensor or a symbol its alphabet."""
        dtype = code_dtype(alphabet)
        if alphabet == 1 or k == 0:
            return torch.zeros(k, dtype=dtype, device="cpu")
        numbers = np.empty(k, UNSIGNED[dtype])
        _, widths, lengths, shift = OMEGA
        where = f"past {k} entries, or outside an alphabet of {alphabet}"
        refusal = f"elias_gaps: codes run past the payload's end, {where}"
        arguments = (alphabet, numbers, lengths, widths, shift)
        bits.decode(kernel.decode_elias, *arguments, refusals=[refusal])
        return torch.from_numpy(numbers).view(dtype)

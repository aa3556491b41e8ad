"""The encoders: those of the paper, and others; their bits and times on recorded symbols."""

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compressors import (
    Ans,
    Auto,
    BitReader,
    BitWriter,
    EliasOmega,
    Fixed,
    Golomb,
    Huffman,
    PayloadError,
    PositionCode,
    RunLength,
    RunLengthHuffman,
    SampleHuffman,
    SparseHuffman,
    SymbolCode,
    code_dtype,
)

from .quantized_messages import Recording

CAP = 32
"""gamma of SHS. The paper names none; its x855 for TQ needs runs of 27 or more, for a run costs
a bit at least."""


@dataclass(frozen=True)
class ZerosApart:
    """Where the symbols other than 0 stand in a position code, then those symbols less one.

    The number of positions + 1 goes first, in a gamma code.
    """

    positions: PositionCode
    symbols: SymbolCode

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        places = np.flatnonzero(codes.numpy())
        out.gamma(places.size + 1)
        self.positions.write_positions(places, codes.numel(), out, 0)
        rest = (codes[torch.from_numpy(places)] - 1).to(code_dtype(alphabet - 1))
        self.symbols.write_symbols(rest, alphabet - 1, out)

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        count = bits.gamma() - 1
        if count > k:
            raise PayloadError(f"{count} symbols are not zero, of {k}")
        places = self.positions.read_positions(bits, k, count, 0)
        codes = torch.zeros(k, dtype=code_dtype(alphabet))
        rest = self.symbols.read_symbols(bits, count, alphabet - 1)
        codes[torch.from_numpy(places)] = rest.to(codes.dtype) + 1
        return codes


PUBLISHED: dict[str, SymbolCode] = {
    "Huffman": Huffman(),
    "Elias": EliasOmega(),
    "RLE": RunLength(),
    "SH": SampleHuffman(),
    "SHS": SparseHuffman(CAP),
    "RLH": RunLengthHuffman(),
}
BEYOND: dict[str, SymbolCode] = {
    "fixed": Fixed(),
    "SHS, fitted": SparseHuffman(CAP, fit=True),
    "ANS": Ans(),
    "Elias, gaps": ZerosApart(EliasOmega(), EliasOmega()),
    "Golomb": ZerosApart(Golomb(), Huffman()),
    "auto": ZerosApart(Auto(), Ans()),
}
ENCODERS = PUBLISHED | BEYOND


@dataclass(frozen=True)
class Cost:
    """What one message takes: bits with code tables and norms, and seconds each way."""

    bits: int
    encode_seconds: float
    decode_seconds: float


def measure(code: SymbolCode, recording: Recording, repeats: int) -> Cost:
    """Encodes and decodes a message; times are the least of ``repeats`` after a first.

    Raises ``RuntimeError`` where a symbol does not come back.
    """
    encode, decode, bits = [], [], 0
    for _ in range(repeats + 1):  # the first compiles and warms
        out = BitWriter()
        start = time.perf_counter()
        for codes in recording.codes:
            code.write_symbols(codes, recording.alphabet, out)
        middle = time.perf_counter()
        reader = BitReader(out.to_bytes())
        got = [
            code.read_symbols(reader, codes.numel(), recording.alphabet)
            for codes in recording.codes
        ]
        end = time.perf_counter()
        encode.append(middle - start)
        decode.append(end - middle)
        bits = out.position
        if not all(map(torch.equal, got, recording.codes)):
            raise RuntimeError(f"{code} does not bring back {recording.quantizer}'s symbols")
    return Cost(bits + recording.side_bits, min(encode[1:]), min(decode[1:]))


def entropy_bits(recording: Recording) -> float:
    """The least that a code of single symbols can take: no table, no runs, no whole bits."""
    bits = 0.0
    for codes in recording.codes:
        counts = torch.bincount(codes.long()).double()
        shares = counts[counts > 0] / codes.numel()
        bits -= float((shares * shares.log2()).sum()) * codes.numel()
    return bits


def zero_share(recording: Recording) -> float:
    """The fraction of symbols that are 0."""
    return sum(int((codes == 0).sum()) for codes in recording.codes) / recording.entries

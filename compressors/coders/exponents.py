"""Lossless coding of floats: exponents by their frequencies, all other bits as they are."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import unsigned
from compressors.coders.rans import Ans
from compressors.parts import IEEE


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

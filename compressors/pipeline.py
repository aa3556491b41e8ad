"""Select, code positions, gather, quantize, code symbols: one tensor, four named slots."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from compressors.base import ALL, SentTensor, scatter
from compressors.bits import BitReader, BitWriter
from compressors.errors import PayloadError
from compressors.positions.base import PositionCode
from compressors.positions.golomb import Golomb
from compressors.quantize import Quantizer, Symbols
from compressors.sparsify import Sparsifier
from compressors.symbols.base import SymbolCode
from compressors.symbols.fixed import Fixed


@dataclass(frozen=True)
class Pipeline:
    """A sparse codec from its parts, always in the same order.

    A tensor starts with one bit: 1, the nominal number of entries travels; 0, a
    gamma code of the number plus one follows. Then positions, the quantizer's side
    information, and the symbols. A tensor without entries takes no bits at all.
    Values are gathered at the positions that the receiver will rebuild, so a lossy
    position code carries true values.

    Raises ``ValueError`` for a quantizer of one sign behind a sparsifier that mixes signs.

    Example:
        >>> from compressors import OneSided, Mean
        >>> sbc = Pipeline(OneSided(0.01), Mean())
    """

    sparsify: Sparsifier
    quantize: Quantizer
    positions: PositionCode = field(default_factory=Golomb)
    symbols: SymbolCode = field(default_factory=Fixed)

    def __post_init__(self) -> None:
        if self.quantize.one_sign and not self.sparsify.one_sign:
            raise ValueError(
                f"{self.quantize} sends one value a tensor and {self.sparsify} mixes signs: "
                "put a sparsifier of one sign before it, such as one_sided(p)"
            )

    @property
    def needs_seed(self) -> bool:
        """Whether any part needs the seed to be read."""
        parts = (self.sparsify, self.quantize, self.positions)
        return any(part.needs_seed for part in parts)

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        """See ``VectorCodec.write``."""
        flat = x.detach().reshape(-1)
        n = flat.numel()
        if n == 0:
            return SentTensor(torch.zeros_like(x), ALL, x.shape)
        chosen, scale = self.sparsify.select(flat, seed)
        self._write_count(chosen.numel(), n, out)
        with out.span("positions"):
            rebuilt = self.positions.write(chosen.cpu().numpy(), n, out, seed)
        indices = torch.from_numpy(rebuilt).to(x.device)
        values = flat[indices] if scale == 1 else flat[indices] * scale
        symbols = self.quantize.quantize(values, indices, x.shape, out, seed)
        with out.span("values"):
            self.symbols.write(symbols.codes, symbols.alphabet, out)
        return SentTensor(self.quantize.dequantize(symbols, seed), indices, x.shape)

    def read(self, bits: BitReader, like: Tensor, seed: int) -> Tensor:
        """See ``VectorCodec.read``."""
        n = like.numel()
        if n == 0:
            return torch.zeros_like(like)
        k = self._read_count(bits, n)
        with bits.span("positions"):
            indices = torch.from_numpy(self.positions.read(bits, n, k, seed)).to(like.device)
        alphabet, side = self.quantize.read_side(bits, indices, like.shape, indices.numel())
        with bits.span("values"):
            codes = self.symbols.read(bits, indices.numel(), alphabet, like.device)
        values = self.quantize.dequantize(Symbols(codes, alphabet, side), seed)
        return scatter(values, indices, like.shape)

    def _write_count(self, k: int, n: int, out: BitWriter) -> None:
        nominal = k == self.sparsify.count(n)
        out.uint(int(nominal), 1)
        if not nominal:
            out.gamma(k + 1)

    def _read_count(self, bits: BitReader, n: int) -> int:
        if bits.uint(1):
            return self.sparsify.count(n)
        k = bits.gamma() - 1
        if k > n:
            raise PayloadError(f"{k} entries announced for a tensor of {n}")
        return k

"""Select, code positions, gather, quantize, code symbols: one tensor, four named slots."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite
from typing import Any, ClassVar

import torch
from torch import Tensor

from compressors.arguments import (
    check_count,
    check_rebuilt,
    check_selected,
    check_symbols,
    check_values,
    is_own,
)
from compressors.base import ALL, SentTensor, finite, scatter, tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound, compose, contraction, neither, sparsity
from compressors.coders.fixed import Fixed
from compressors.coders.golomb import Golomb
from compressors.errors import NotFinite, PayloadError
from compressors.grammar import shown
from compressors.parts import (
    Lossy,
    Place,
    PositionCode,
    Quantizer,
    Seeded,
    Sparsifier,
    SymbolCode,
    Symbols,
    Weighted,
)
from compressors.quantize.magnitudes import Mean, SharedMagnitude
from compressors.quantize.sign import ScaledSign
from compressors.sparsify.threshold import Identity
from compressors.sparsify.topk import OneSided, TopK, one_sided_delta

_SELECT, ROUND = 1, 2  # purposes of a tensor's seed: noise of one must not be that of another


@dataclass(frozen=True)
class Pipeline:
    """A codec from its parts, always in the same order.

    A sparse tensor starts with one bit: 1, the nominal number of units travels; 0, a
    gamma code of the number plus one follows. Then positions, the quantizer's side
    information, and the symbols. Where all entries travel (``Identity``) or the positions
    follow from the seed, neither this bit nor positions are written. A tensor without
    entries takes no bits at all. Values are gathered at the positions that the receiver
    will rebuild, so a lossy position code carries true values.

    Raises ``ValueError`` for a part in the place of another; a quantizer of one sign behind a
    sparsifier that mixes signs; a position code where no positions are written; and a lossy
    position code with a quantizer of one sign, or one that shifts values with units of several
    entries.

    Example:
        >>> from compressors import OneSided, Mean
        >>> sbc = Pipeline(OneSided(0.01), Mean())
    """

    codec_id: ClassVar[str] = "pipeline"
    sparsify: Sparsifier
    quantize: Quantizer
    positions: PositionCode = field(default_factory=Golomb)
    symbols: SymbolCode = field(default_factory=Fixed)

    def __post_init__(self) -> None:
        if not hasattr(self.sparsify, "select") or not hasattr(self.quantize, "dequantize"):
            raise ValueError(
                f"a pipeline takes a sparsifier, then a quantizer, not {shown(self.sparsify)} and "
                f"{shown(self.quantize)}"
            )
        if not hasattr(self.positions, "write_positions"):
            raise ValueError(f"a pipeline codes positions, which {shown(self.positions)} does not")
        if not hasattr(self.symbols, "write_symbols"):
            raise ValueError(f"a pipeline codes symbols, which {shown(self.symbols)} does not")
        if self.quantize.one_sign and not self.sparsify.one_sign:
            raise ValueError(
                f"{shown(self.quantize)} sends one value per tensor and {shown(self.sparsify)} "
                "mixes signs: put a sparsifier of one sign before it, such as one_sided(p)"
            )
        if self.positions != Golomb():
            self.check_positions()
        if not isinstance(self.positions, Lossy):
            return
        if self.quantize.one_sign:
            raise ValueError(
                f"{shown(self.quantize)} sends one value per tensor and {shown(self.positions)} "
                "adds positions of any sign: use golomb, or a quantizer of single values such as "
                "float32"
            )
        if self.positions.shifts and self.sparsify.unit != 1:
            raise ValueError(
                f"{shown(self.positions)} shifts values by single entries: leave out the units of "
                f"{shown(self.sparsify)}"
            )

    def check_positions(self) -> None:
        """Raises ``ValueError`` where a position code would have nothing to write."""
        if not self.writes_positions:
            reason = "sends every entry"
            if not self._dense:
                reason = "draws its positions from the seed, and none are written"
            raise ValueError(f"{shown(self.sparsify)} {reason}: leave {shown(self.positions)} out")

    def text_parts(self) -> list[Any]:
        """The parts that its text names: without what follows from the others."""
        parts: list[Any] = [] if self._dense else [self.sparsify]
        parts.append(self.quantize)
        if self.writes_positions:
            parts.append(self.positions)
        return parts if self.symbols == Fixed() else [*parts, self.symbols]

    @cached_property
    def _dense(self) -> bool:
        return isinstance(self.sparsify, Identity)

    @cached_property
    def writes_positions(self) -> bool:
        """Whether positions travel."""
        return not self._dense and not self.sparsify.needs_seed

    @property
    def needs_seed(self) -> bool:
        """Whether any part needs the seed to be read."""
        parts = (self.sparsify, self.quantize, self.positions)
        return any(part.needs_seed for part in parts)

    @cached_property
    def _weigh(self) -> Callable[[Tensor, float], Tensor] | None:
        """What multiplies different values by different factors; None without it."""
        return self.sparsify.weigh if isinstance(self.sparsify, Weighted) else None

    @cached_property
    def _places(self) -> Callable[[int, int], Tensor] | None:
        """What draws the positions that the receiver draws too; None where they are written."""
        drawn = isinstance(self.sparsify, Seeded) and self.sparsify.needs_seed
        return getattr(self.sparsify, "places", None) if drawn else None

    @cached_property
    def _foreign(self) -> bool:
        """Whether a part comes from outside this package: what it hands over is then checked."""
        return is_own((self.sparsify, self.quantize, self.positions, self.symbols))

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        flat = x.detach().reshape(-1).contiguous()  # kernels are compiled for such alone
        place, values = self._choose(flat, x.shape, out, seed)
        if place.k == 0:  # no side information and no symbols
            return SentTensor(values, torch.empty(0, dtype=torch.int64, device="cpu"), x.shape)
        rounding = tensor_seed(seed, ROUND)
        with out.span("side"):
            symbols = self.quantize.quantize(values, place, out, rounding)
        if self._foreign:
            check_symbols(self.quantize, symbols, place.k)
        with out.span("values"):
            self.symbols.write_symbols(symbols.codes, symbols.alphabet, out)
        decoded = self.quantize.dequantize(symbols, place, rounding)
        if self._foreign:
            check_values(self.quantize, decoded, place.k)
        if place.indices is None:
            return SentTensor(decoded.view(x.shape), ALL, x.shape)
        return SentTensor(decoded, place.indices, x.shape)

    def _choose(
        self, flat: Tensor, shape: torch.Size, out: BitWriter, seed: int
    ) -> tuple[Place, Tensor]:
        """Where what is sent stands, written to ``out``, and its values (k,)."""
        if self._dense:
            return Place(None, shape), flat
        n, unit = flat.numel(), self.sparsify.unit
        units = -(-n // unit)
        selected = self.sparsify.select(flat, tensor_seed(seed, _SELECT))
        if self._foreign:
            check_count(self.sparsify, self.sparsify.count(units), units)
            check_selected(self.sparsify, selected, units)
        chosen, scale = selected
        written = None  # entries, where their values travel for other positions
        if self.writes_positions:
            as_counted = chosen.numel() == self.sparsify.count(units)
            with out.span("header"):
                out.uint(int(as_counted), 1)
                if not as_counted:
                    out.gamma(chosen.numel() + 1)
            with out.span("positions"):
                rebuilt = self.positions.write_positions(chosen.numpy(), units, out, seed)
            if self._foreign:
                check_rebuilt(self.positions, rebuilt, units)
            if getattr(self.positions, "shifts", False):  # see ``Lossy``
                written = chosen
            chosen = torch.from_numpy(rebuilt)
        indices = _entries(chosen, unit, n)
        values = flat.index_select(0, indices if written is None else written)
        if self._weigh is not None:
            values = self._weigh(values, scale)
        elif scale != 1:
            values = values * scale
        else:
            return Place(indices, shape), values
        if not (isfinite(scale) and finite(values)):
            raise NotFinite(f"values times {scale:g} overflow float32")
        return Place(indices, shape), values

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        n, indices = template.numel(), None
        if self._places is not None:
            indices = self._places(n, tensor_seed(seed, _SELECT))
        elif not self._dense:
            unit = self.sparsify.unit
            units = -(-n // unit)
            k = self.read_count(bits, units)
            with bits.span("positions"):
                chosen = torch.from_numpy(self.positions.read_positions(bits, units, k, seed))
            indices = _entries(chosen, unit, n)
        place = Place(indices, template.shape)
        bits.places = indices
        if place.k == 0:
            return torch.zeros_like(template)
        with bits.span("side"):
            alphabet, side = self.quantize.read_side(bits, place)
        with bits.span("values"):
            codes = self.symbols.read_symbols(bits, place.k, alphabet)
        symbols = Symbols(codes, alphabet, side)
        values = self.quantize.dequantize(symbols, place, tensor_seed(seed, ROUND))
        if place.indices is None:
            return values.view(template.shape)
        return scatter(values, place.indices, template.shape)

    def read_count(self, bits: BitReader, n: int) -> int:
        """How many of ``n`` units travel, as ``write`` wrote it; ``PayloadError`` for more."""
        with bits.span("header"):
            if bits.uint(1):
                return self.sparsify.count(n)
            k = bits.gamma() - 1
        if k > n:
            raise PayloadError(f"{k} units announced for a tensor of {n}")
        return k

    def bound_on(self, d: int) -> Bound:
        """The sparsifier, then the quantizer on what is left (Theorem 5 or projections).

        Of two pairs more is known. The k largest with their mean magnitude, or finer means, keep
        min(1 / k, k / d): with the least of them at v, (sum)^2 / (k ||x||^2) is least where one is
        1 and all others v, at either end of 0 <= v <= 1. SBC's mean of the stronger side keeps
        what its entries do, and that is reached too.
        """
        select, quantizer = self.sparsify, self.quantize
        if self.writes_positions and hasattr(self.positions, "shifts"):
            return neither(f"{shown(self.positions)} may change which entries arrive")
        if type(select) is OneSided and type(quantizer) is Mean:
            delta = one_sided_delta(select.count(d), d)
            return contraction(delta, "ours: 1 / (1 + max(d - 1, k^2)); the paper states none")
        means = type(quantizer) is ScaledSign or (
            type(quantizer) is SharedMagnitude and quantizer.value != "min"
        )
        if means and type(select) is TopK and select.sample is None:
            k = select.count(d)
            return contraction(min(1 / k, k / d), "ours: min(1 / k, k / d)")
        left = sparsity(select, d)
        behind = bound(quantizer, left.capacity)
        if not self._dense:  # fewer may be left, and lattice loses most of one
            behind = max(behind, bound(quantizer, 1), key=_lost)
        return compose(left.bound, behind, left.projects)


def _lost(quantizer_bound: Bound) -> float:
    """The largest share of the squared norm that may be lost."""
    if quantizer_bound.omega is None:
        return inf if quantizer_bound.delta is None else 1 - quantizer_bound.delta
    return quantizer_bound.omega


def _entries(units: Tensor, unit: int, n: int) -> Tensor:
    """The entries in ``units`` (sorted) of ``unit`` entries each, the last cut off at ``n``."""
    if unit == 1:
        return units
    offsets = torch.arange(min(unit, n), device=units.device)  # one unit may be more than all
    entries = (units[:, None] * unit + offsets).flatten()
    return entries[entries < n]

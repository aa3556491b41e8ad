"""Random dithering: values as multiples of their norm, rounded to a few levels by chance.

Standard levels are QSGD (Alistarh et al., QSGD: Communication-Efficient SGD via Gradient
Quantization and Encoding, 2017, https://arxiv.org/abs/1610.02132), powers of two are natural
dithering (Horváth et al., Natural Compression for Distributed Deep Learning, 2022,
https://arxiv.org/abs/1905.10988, Definition 6).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from compressors.base import tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import (
    Bound,
    compose_omegas,
    natural_omega,
    neither,
    standard_omega,
    unbiased,
)
from compressors.grammar import shown, text
from compressors.kernels import dither as kernel
from compressors.kernels.noise import words
from compressors.parts import BasePart, Place, Symbols
from compressors.quantize.levels import bucket_norms, level_codes, values_of
from compressors.settings import check_number, check_one_of, check_whole, plain

MOST_LEVELS = {"standard": 65535, "natural": 127}
"""Beyond these a float32 ratio has no bits left for chance, or no normal number for the level."""

NORM_NOISE = 1  # the norm's own stream beside that of the values
_TOP_POWER = np.uint32(254 << 23)  # the bits of 2**127


@dataclass(frozen=True)
class Dither(BasePart):
    """General random dithering (Horváth et al. 2022, Definition 6): unbiased.

        x_hat_i = C(||x||_p) sign(x_i) xi_i,  y_i = |x_i| / ||x||_p
        xi_i = l_(j+1) with chance (y_i - l_j) / (l_(j+1) - l_j), else l_j,  l_j <= y_i <= l_(j+1)

    ||x||_p is the p-norm of the bucket of i, 0 = l_0 < l_1 < ... < l_s = 1 are the levels (the
    paper numbers them from 1 down), and C is ``norm_code``.

    A value is its bucket's norm, times its sign, times one of ``levels`` + 1 levels from 0 to
    1: the two around |x_i| / norm, each with the chance that makes the mean right. Sign and
    level are one symbol of 2 ``levels`` + 1 (zero has no sign), ceil(log2(2 levels + 1)) bits
    with ``fixed``: 1, 3, 7, 15, ... levels waste nothing. Symbol 0 is zero, 2j - 1 and 2j are
    minus and plus level j.

    Side information: one norm per bucket, summed in float64, sent as float32; a sum beyond the
    largest float32 is sent as that (still at least every |x_i|, so nothing is clipped and the
    mean stays right). With ``norm_code`` ``cnat`` the norm is rounded to a power of two by
    natural compression with noise of its own, 9 bits: values are divided by the true norm and
    multiplied by the rounded one, whose mean is the true one (above 2**127 it saturates there).
    A bucket of zeros has norm 0. Nothing sent, no norm.

    Args:
        levels: levels above zero, s >= 1; at most 65535 (standard) or 127 (natural).
        norm: the p of the p-norm, a number of at least 1 or ``"inf"``. For others than 1, 2 and
            inf the last bit of a norm is that of this machine's ``pow``.
        kind: ``"standard"``: 0, 1/s, ..., 1; ``"natural"``: 0, 2**(1 - s), ..., 1/2, 1.
        bucket: values that share a norm, in the order in which they are sent; None for all.
        norm_code: ``"float32"`` or ``"cnat"``, or the quantizer of that name and no settings.

    Raises ``ValueError`` for any other setting.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("dither(1, inf)"), {"w": torch.tensor([0.0, -3.0, 3.0])})
        >>> packet.sent["w"].decoded, packet.spans["values"], packet.spans["side"]
        (tensor([ 0., -3.,  3.]), 6, 32)
    """

    codec_id: ClassVar[str] = "dither"
    levels: int
    norm: str | float = "2"
    kind: str = "standard"
    bucket: int | None = None
    norm_code: str = "float32"

    def __post_init__(self) -> None:
        plain(self)
        try:
            p = math.nan if isinstance(self.norm, bool) else float(self.norm)
        except (TypeError, ValueError, OverflowError):
            p = math.nan
        if not p >= 1:
            norm = shown(self.norm)
            raise ValueError(f"dither: norm is {norm}: p is a number of at least 1, or inf")
        object.__setattr__(self, "norm", str(p).removesuffix(".0"))  # numbers are taken too
        if hasattr(self.norm_code, "quantize"):  # in a text, a bare cnat is the quantizer
            object.__setattr__(self, "norm_code", text(self.norm_code))
        check_one_of("dither: kind", self.kind, tuple(MOST_LEVELS))
        check_one_of("dither: norm_code", self.norm_code, ("float32", "cnat"))
        check_whole("dither: levels", self.levels, 1, MOST_LEVELS[self.kind])
        if self.bucket is not None:
            check_whole("dither: bucket", self.bucket, 1, (1 << 31) - 1)

    @property
    def alphabet(self) -> int:
        """2 levels + 1: sign and level in one symbol."""
        return 2 * self.levels + 1

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """Symbols of sign and level; a norm per bucket is the side information."""
        values = values.contiguous()
        size = self._bucket(values.numel())
        norms = bucket_norms(values, str(self.norm), size)
        codes = level_codes(values, norms, size, self.levels, self.kind == "natural", seed)
        sent = norms
        if self.norm_code == "cnat":
            sent = rounded(norms, seed)
            out.uints(sent.view(np.uint32) >> 23, 9)
        else:
            out.float32s(norms)
        return Symbols(codes, self.alphabet, sent)

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Any]:
        """The norms (buckets,) as a float32 array."""
        count = -(-place.k // self._bucket(place.k))
        if self.norm_code == "cnat":
            powers = bits.uints(count, 9, np.uint32) << np.uint32(23)
            return self.alphabet, powers.view(np.float32)
        return self.alphabet, bits.float32s(count)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        """Norm times level, one float32 product."""
        codes, _, norms = symbols
        return values_of(
            codes, norms, self._bucket(codes.numel()), self.levels, self.kind == "natural"
        )

    def _bucket(self, k: int) -> int:
        return k if self.bucket is None else self.bucket

    def bound_on(self, k: int) -> Bound:
        """Theorem 7 or its standard twin, a bucket at a time; Theorem 5 for a compressed norm."""
        entries = max(1, k if self.bucket is None else min(k, self.bucket))
        norm, natural_levels = float(self.norm), self.kind == "natural"
        omega = (natural_omega if natural_levels else standard_omega)(entries, self.levels, norm)
        source = "Theorem 7" if natural_levels else "Table 1: kappa d^(1/r) / u"
        if self.norm_code == "cnat":
            omega, source = compose_omegas(omega, 1 / 8), f"{source}; Theorem 5 for the norm"
        return unbiased(omega, f"{source} (Horváth et al. 2022)")


def qsgd(levels: int, bucket: int | None = None) -> Dither:
    """QSGD (Alistarh et al. 2017, section 3.1): ``dither(levels)`` in the 2-norm.

        x_hat_i = ||x||_2 sign(x_i) xi_i,  y_i = s |x_i| / ||x||_2,  l = floor(y_i)
        xi_i = (l + 1) / s with chance y_i - l, else l / s

    s is ``levels``.

    ``bucket`` consecutive values share a norm; None for all of a tensor's. Behind a
    sparsifier it is Q-sparse: ``topk(p) | qsgd(levels)``. Raises as ``Dither``.

    Example:
        >>> qsgd(7, 512) == Dither(7, "2", "standard", 512)
        True
    """
    return Dither(levels, bucket=bucket)


def natural_dither(levels: int, norm: str | float = "2") -> Dither:
    """Natural dithering D_nat^{p,s} (Horváth et al. 2022, section 3.2): levels are powers of two.

        l_0 = 0,  l_j = 2^(j - s),  j = 1, ..., s

    s is ``levels`` and p is ``norm``; values go to the levels l as in ``dither``.

    Raises as ``Dither``.

    Example:
        >>> natural_dither(8) == Dither(8, "2", "natural")
        True
    """
    return Dither(levels, norm, "natural")


def rounded(norms: np.ndarray, seed: int) -> np.ndarray:
    """The ``norms`` (buckets,) as ``norm_code`` ``cnat`` sends them: powers of two, or zero."""
    noise = words(tensor_seed(seed, NORM_NOISE), np.arange(norms.size)) >> np.uint32(9)
    carried = (norms.view(np.uint32) + noise) & np.uint32(0xFF800000)  # the mantissa is cut off
    return np.minimum(carried, _TOP_POWER).view(np.float32)


_ALPHABET = 3


@dataclass(frozen=True)
class TernGrad(BasePart):
    """Three symbols per value: 0, -s, +s, with s the largest magnitude after clipping.

        x_hat_i = s sign(x_i) with chance min(|x_i|, s) / s, else 0
        s = min(max_j |x_j|, clip sigma)

    sigma is the standard deviation of the tensor's values (Wen et al. 2017,
    https://arxiv.org/abs/1705.07878, equations 3 to 5): standard dithering with one level in the
    infinity norm. Values are first clipped to ``clip`` standard deviations of the tensor's values
    either side of zero (equation 9, layer-wise): what is clipped loses the excess, so the method is
    BIASED unless ``clip`` is None; only the clipped values arrive right in the mean. A tensor of
    equal values has no spread and is not clipped. s travels as a float32; nothing sent, no s.

    Args:
        clip: standard deviations, above zero; None or 0 for no clipping.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> packet, _ = compress(parse("terngrad(none)"), {"w": torch.tensor([4.0, 0.0, -4.0])})
        >>> packet.sent["w"].decoded, packet.spans["values"]
        (tensor([ 4.,  0., -4.]), 6)
    """

    codec_id: ClassVar[str] = "terngrad"
    clip: float | None = 2.5

    def __post_init__(self) -> None:
        plain(self)
        clip = self.clip
        if clip is None or (clip == 0 and not isinstance(clip, bool)):
            object.__setattr__(self, "clip", None)
        else:
            allowed = "give a number of standard deviations above 0 and below 1e9, or none"
            check_number("terngrad: clip", clip, lambda c: 0 < c < 1e9, allowed)

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        """Symbols 0, 1 and 2 for 0, -s and +s; s is the side information."""
        k = values.numel()
        values = values.contiguous()
        scale = self.scale(values)
        out.float32s(scale)
        return Symbols(level_codes(values, scale, k, 1, False, seed), _ALPHABET, scale)

    def scale(self, values: Tensor) -> np.ndarray:
        """s of the ``values`` (k,), k > 0, as a float32 array (1,)."""
        largest = bucket_norms(values, "inf", values.numel())
        bound = 0.0 if self.clip is None else self.clip * deviation(values)
        if bound > 0:
            return np.minimum(largest, np.array([min(bound, 1e300)])).astype(np.float32)
        return largest

    def read_side(self, bits: BitReader, place: Place) -> tuple[int, Any]:
        """s as a float32 array (1,)."""
        return _ALPHABET, bits.float32s(1)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        codes, _, scale = symbols
        return values_of(codes, scale, codes.numel(), 1, False)

    def bound_on(self, k: int) -> Bound:
        """(sqrt k - 1) / 2, the most of ||x||_inf ||x||_1 / ||x||^2 - 1; clipping is biased."""
        if self.clip is not None:
            return neither("clipping is biased; without it omega = (sqrt(d) - 1) / 2")
        return unbiased((math.sqrt(max(k, 1)) - 1) / 2, "(sqrt(d) - 1) / 2, reached")


def deviation(values: Tensor) -> float:
    """The standard deviation of ``values`` (k,) about their mean, in float64; 0 if all are equal.

    Example:
        >>> deviation(torch.tensor([3.0, 1.0]))
        1.0
    """
    return math.sqrt(kernel.variance(values.contiguous().numpy()))

"""Published methods by name: each is a compressor made of the parts in this package."""

from compressors.base import Compressor
from compressors.parts import Sparsifier
from compressors.quantize.dither import Dither
from compressors.quantize.floats import Float32
from compressors.quantize.grid import MinMax
from compressors.quantize.magnitudes import SharedMagnitude
from compressors.quantize.mean import Mean
from compressors.quantize.natural import Natural
from compressors.quantize.shrink import Shrink
from compressors.quantize.sign import ScaledSign
from compressors.sparsify.identity import Identity
from compressors.sparsify.randk import RandK
from compressors.sparsify.topk import OneSided, TopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import Flat, PerTensor
from compressors.whole.lowrank import LowRank
from compressors.whole.pipeline import Pipeline
from compressors.whole.raw import Raw
from compressors.whole.rotate import Rotate


def sbc(p: float) -> Compressor:
    """Sparse Binary Compression (Sattler et al. 2018, Algorithm 2): a fraction ``p`` per tensor.

    ``ef(per_tensor(one_sided(p) | mean | golomb))``; p = 1 means dense: ``raw``.
    Raises ``ValueError`` unless 0 < p <= 1.

    Example:
        >>> from compressors import text
        >>> text(sbc(0.01))
        'ef(per_tensor(one_sided(0.01) | mean | golomb))'
    """
    sparse = Pipeline(OneSided(p), Mean())
    return Raw() if p == 1 else ErrorFeedback(PerTensor(sparse))


def gradient_dropping(p: float, scope: str = "tensor") -> Compressor:
    """Gradient dropping (Aji & Heafield 2017) of all but a fraction ``p``, Golomb-coded.

    ``scope`` is ``tensor`` for a threshold per tensor (local) or ``model`` for one over all
    (global). ``ef(per_tensor(topk(p) | float32 | golomb))`` or the same with ``flat``;
    p = 1 means dense: ``raw``. Raises ``ValueError`` for p outside (0, 1] or another scope.
    """
    if scope not in ("tensor", "model"):
        raise ValueError(f"gradient_dropping: scope is {scope!r}: it is one of tensor, model")
    sparse = Pipeline(TopK(p), Float32())
    if p == 1:
        return Raw()
    return ErrorFeedback(PerTensor(sparse) if scope == "tensor" else Flat(sparse))


def ef_sign() -> Compressor:
    """EF-signSGD (Karimireddy et al. 2019, Algorithm 1): signs and mean magnitudes, residuals kept.

    ``ef(per_tensor(l1_sign))``: one bit per entry and 32 per tensor.

    Example:
        >>> from compressors import text
        >>> text(ef_sign())
        'ef(per_tensor(l1_sign))'
    """
    return ErrorFeedback(PerTensor(Pipeline(Identity(), ScaledSign())))


def stc(p: float) -> Compressor:
    """Sparse ternary compression (Sattler et al. 2020) of a fraction ``p`` of each tensor.

    ``ef(per_tensor(topk(p) | magnitude | golomb))``: the largest entries, each as its sign
    times their mean magnitude; p = 1 means dense: ``raw``. Raises ``ValueError`` unless
    0 < p <= 1.

    Example:
        >>> from compressors import text
        >>> text(stc(0.01))
        'ef(per_tensor(topk(0.01) | magnitude | golomb))'
    """
    sparse = Pipeline(TopK(p), SharedMagnitude())
    return Raw() if p == 1 else ErrorFeedback(PerTensor(sparse))


def powersgd(rank: int) -> Compressor:
    """PowerSGD (Vogels, Karimireddy & Jaggi 2019, Algorithm 1): ``ef(lowrank(rank))``.

    With the error feedback of Algorithm 2; its momentum is the client's or the server's.

    Raises ``ValueError`` unless ``rank`` is a whole number of at least 1.

    Example:
        >>> from compressors import text
        >>> text(powersgd(2))
        'ef(lowrank(2))'
    """
    return ErrorFeedback(LowRank(rank))


def structured_mask(p: float) -> Compressor:
    """A structured update by random mask (Konečný et al. 2016, section 2).

    ``per_tensor(randk(p, false) | float32)``: a fraction ``p`` of each tensor, drawn
    afresh for each message, as it is; the mask's seed is all that travels of it. In the paper
    the client trains the masked entries alone; here the mask is put on the finished update,
    which is the same for one local step and differs for several. The paper's low-rank
    structure (one factor random, the other trained) lives in training too and is left out.
    p = 1 means dense: ``raw``. Raises ``ValueError`` unless 0 < p <= 1.

    Example:
        >>> from compressors import text
        >>> text(structured_mask(0.1))
        'per_tensor(randk(0.1, false) | float32)'
    """
    masked = PerTensor(Pipeline(RandK(p, scaled=False), Float32()))
    return Raw() if p == 1 else masked


def sketched(p: float, bits: int = 2) -> Compressor:
    """A sketched update (Konečný et al. 2016, section 3): rotated, subsampled, quantized.

    ``per_tensor(rotate(randk(p) | minmax(bits)))``: a random rotation, of the rotated
    vector a random fraction ``p`` times n / k, and of those a random rounding to 2**bits even
    levels. Unbiased, and without memory. At p = 1 nothing is left out and the rest stays:
    ``per_tensor(rotate(minmax(bits)))``.
    Raises ``ValueError`` unless 0 < p <= 1 and bits is 1 to 16.

    Example:
        >>> from compressors import text
        >>> text(sketched(0.25))
        'per_tensor(rotate(randk(0.25) | minmax(2)))'
    """
    return PerTensor(Rotate(Pipeline(_all_or(RandK(p)), MinMax(bits))))


def q_sparse(p: float, levels: int = 7) -> Compressor:
    """Qsparse-local-SGD (Basu, Data, Karakus & Diggavi 2019, section 3): top-k, then QSGD.

    ``ef(per_tensor(topk(p) | shrink(dither(levels)) | golomb))``: scaled by 1 / (1 + omega) as
    the paper has it where QSGD's noise exceeds its signal (unscaled, the residual would grow
    without end from k = levels**2 entries on). The default of 7 levels packs sign and level
    into 4 bits without waste. At p = 1 the same with all entries:
    ``ef(per_tensor(shrink(dither(levels))))``.
    Raises ``ValueError`` unless 0 < p <= 1 and levels is 1 to 65535.

    Example:
        >>> from compressors import text
        >>> text(q_sparse(0.01))
        'ef(per_tensor(topk(0.01) | shrink(dither(7)) | golomb))'
    """
    return ErrorFeedback(PerTensor(Pipeline(_all_or(TopK(p)), Shrink(Dither(levels)))))


def topk_cnat(p: float) -> Compressor:
    """TopK-C_nat (Horváth et al. 2022, section 5.4): top-k, then natural compression.

    ``ef(per_tensor(topk(p) | cnat | golomb))``. The paper does not say whether Tables 2 and 3
    were trained with a memory; top-k is biased and does not converge in general without one, so
    here it has one (write the pipeline out for the other reading). At p = 1:
    ``ef(per_tensor(cnat))``. Raises ``ValueError`` unless 0 < p <= 1.

    Example:
        >>> from compressors import text
        >>> text(topk_cnat(0.01))
        'ef(per_tensor(topk(0.01) | cnat | golomb))'
    """
    return ErrorFeedback(PerTensor(Pipeline(_all_or(TopK(p)), Natural())))


def _all_or(sparsify: TopK | RandK) -> Sparsifier:
    """At p = 1 simply every entry: positions would be bits for nothing."""
    return Identity() if sparsify.p == 1 else sparsify

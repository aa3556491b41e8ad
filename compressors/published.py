"""Published methods by name: each is a compressor made of the parts in this package."""

from compressors.base import Compressor
from compressors.quantize.floats import Float32
from compressors.quantize.magnitudes import SharedMagnitude
from compressors.quantize.mean import Mean
from compressors.quantize.sign import ScaledSign
from compressors.sparsify.identity import Identity
from compressors.sparsify.topk import OneSided, TopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import Flat, PerTensor
from compressors.whole.pipeline import Pipeline
from compressors.whole.raw import Raw


def sbc(p: float) -> Compressor:
    """Sparse Binary Compression (Sattler et al. 2018, Algorithm 2) of a fraction ``p`` a tensor.

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

    ``scope`` is ``tensor`` for a threshold a tensor (local) or ``model`` for one over all
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

    ``ef(per_tensor(l1_sign))``: one bit an entry and 32 a tensor.

    Example:
        >>> from compressors import text
        >>> text(ef_sign())
        'ef(per_tensor(l1_sign))'
    """
    return ErrorFeedback(PerTensor(Pipeline(Identity(), ScaledSign())))


def stc(p: float) -> Compressor:
    """Sparse ternary compression (Sattler et al. 2020) of a fraction ``p`` a tensor.

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

"""Published methods that no text of parts says: a setting names their parts, or is computed with.

All others are equations in the rows of ``compressors.catalogue``.
"""

from compressors.base import Compressor
from compressors.coders.bloom import Bloom
from compressors.coders.fixed import Fixed, Raw32
from compressors.coders.huffman import IndexHuffman
from compressors.coders.runlength import RunLength
from compressors.coders.zipped import Deflate
from compressors.grammar import shown
from compressors.parts import PositionCode, Quantizer, SymbolCode
from compressors.quantize.curvefit import FitDExp, FitPoly
from compressors.quantize.dither import Dither, qsgd
from compressors.quantize.floats import Float32
from compressors.settings import check_one_of, check_share
from compressors.sparsify.threshold import Identity, Nonzero
from compressors.sparsify.topk import TopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import Flat, PerTensor
from compressors.whole.pipeline import Pipeline
from compressors.whole.raw import Raw

_INDEX = (None, "bloom_naive", "bloom_p0", "bloom_p1", "bloom_p2", "rle", "huffman")
_VALUE = (None, "fit_poly", "fit_dexp", "deflate", "qsgd")


def gradient_dropping(p: float, scope: str = "tensor") -> Compressor:
    """Gradient dropping of all but a fraction ``p`` (Aji & Heafield 2017, Algorithm 1).

        gradient_dropping(p) = ef(per_tensor(topk(p) | float32 | golomb))

    ``scope`` is ``tensor`` for a threshold per tensor (local) or ``model`` for one over all
    (global): ``flat`` in the place of ``per_tensor``. p = 1 means dense: ``raw``. Raises
    ``ValueError`` for p outside (0, 1] or another scope.
    """
    check_one_of("gradient_dropping: scope", scope, ("tensor", "model"))
    sparse = Pipeline(TopK(p), Float32())
    if p == 1:
        return Raw()
    return ErrorFeedback(PerTensor(sparse) if scope == "tensor" else Flat(sparse))


def deepreduce(
    p: float, index: str | None = "bloom_p2", value: str | None = None, eps: float = 0.001
) -> Compressor:
    """DeepReduce (Kostopoulou et al. 2021, Table 3): one coder for indices, one for values.

        deepreduce(p, INDEX, VALUE) = ef(per_tensor(topk(p) | VALUE | INDEX))

    The memory is that of section 6.3. p = 1 takes the tensor as sparse as it is: ``nonzero`` in the
    place of ``topk(p)``.

    Args:
        p: the fraction r / d of entries.
        index: None (keys of 32 bits), ``bloom_naive``, ``bloom_p0``, ``bloom_p1``,
            ``bloom_p2``, ``rle`` (of the bitmap) or ``huffman`` (of the bytes of a key).
            ``bloom_naive`` is refused: a memory around values at wrong places grows without
            end. Write that pipeline out, without ``ef``.
        value: None (32 bits), ``fit_poly`` (degree 5, 8 pieces), ``fit_dexp``, ``deflate``,
            or ``qsgd`` (7 bits, buckets of 512).
        eps: the false positive rate of a Bloom filter; without one it says nothing.

    In a text, put names that are also names of the catalogue into quotes:
    ``deepreduce(0.01, 'huffman', 'fit_poly')``.

    Raises ``ValueError`` for other settings.

    Example:
        >>> from compressors import text
        >>> text(deepreduce(0.01, "bloom_p0", "qsgd", eps=0.6))
        'ef(per_tensor(topk(0.01) | dither(63, bucket=512) | bloom(0.6)))'
    """
    check_share("deepreduce: p", p)
    for name, coder, names in (("index", index, _INDEX), ("value", value, _VALUE)):
        if coder not in names:
            allowed = ", ".join(str(one).lower() for one in names)
            raise ValueError(f"deepreduce: {name} is {shown(coder)}: give one of {allowed}")
    positions: dict[str | None, PositionCode] = {
        None: Raw32(),
        "rle": RunLength(),
        "huffman": IndexHuffman(),
    }
    if index is not None and index.startswith("bloom_"):
        positions[index] = Bloom(eps, index.removeprefix("bloom_"))
    quantizers: dict[str | None, Quantizer] = {  # QSGD of 7 bits, sign and level in 127 symbols
        "fit_poly": FitPoly(),
        "fit_dexp": FitDExp(),
        "qsgd": qsgd(63, 512),
    }
    symbols: SymbolCode = Deflate() if value == "deflate" else Fixed()
    sparse, quantizer = Nonzero() if p == 1 else TopK(p), quantizers.get(value, Float32())
    return ErrorFeedback(PerTensor(Pipeline(sparse, quantizer, positions[index], symbols)))


def fedpaq(levels: int = 1, scope: str = "model") -> Compressor:
    """FedPAQ (Reisizadeh et al. 2020, Algorithm 1 and Example 1): QSGD of the whole update.

        fedpaq(levels) = flat(dither(levels))

    One norm for the update; with ``scope`` ``tensor`` one per tensor,
    ``per_tensor(dither(levels))``. Its periodic averaging is ``temporal`` and its partial
    participation ``cohort``. Unbiased, no memory. Raises ``ValueError`` for another scope, and
    unless levels is 1 to 65535.

    Example:
        >>> from compressors import text
        >>> text(fedpaq(7)), text(fedpaq(7, "tensor"))
        ('flat(dither(7))', 'per_tensor(dither(7))')
    """
    check_one_of("fedpaq: scope", scope, ("model", "tensor"))
    codec = Pipeline(Identity(), Dither(levels))
    return Flat(codec) if scope == "model" else PerTensor(codec)

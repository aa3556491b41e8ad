"""DeepReduce's named combinations, and SKCompress as it sets it up."""

from compressors.base import Compressor
from compressors.coders.bloom import Bloom
from compressors.coders.delta_huffman import DeltaHuffman
from compressors.coders.fixed import Fixed
from compressors.coders.huffman import Huffman
from compressors.coders.index_huffman import IndexHuffman
from compressors.coders.raw32 import Raw32
from compressors.coders.runlength import RunLength
from compressors.coders.zipped import Deflate
from compressors.parts import PositionCode, Quantizer, Sparsifier, SymbolCode
from compressors.printing import shown
from compressors.quantize.curvefit import FitPoly
from compressors.quantize.dexp import FitDExp
from compressors.quantize.dither import qsgd
from compressors.quantize.floats import Float32
from compressors.quantize.sketch import Sketch
from compressors.settings import check_share
from compressors.sparsify.threshold import Nonzero
from compressors.sparsify.topk import TopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import PerTensor
from compressors.whole.pipeline import Pipeline

_INDEX = (None, "bloom_naive", "bloom_p0", "bloom_p1", "bloom_p2", "rle", "huffman")
_VALUE = (None, "fit_poly", "fit_dexp", "deflate", "qsgd")
_LEVELS, _BUCKET = 63, 512  # QSGD of 7 bits (sign and level in one of 127 symbols), section 6.3


def deepreduce(
    p: float, index: str | None = "bloom_p2", value: str | None = None, eps: float = 0.001
) -> Compressor:
    """DeepReduce (Kostopoulou et al. 2021, Table 3): one coder for indices, one for values.

    ``ef(per_tensor(topk(p) | VALUE | INDEX))``; the memory as in section 6.3. p = 1 takes the
    tensor as sparse as it is: ``nonzero`` in the place of ``topk(p)``.

    Args:
        p: the fraction r / d of entries.
        index: None (keys of 32 bits), ``bloom_naive``, ``bloom_p0``, ``bloom_p1``,
            ``bloom_p2``, ``rle`` (of the bitmap) or ``huffman`` (of the bytes of a key).
            ``bloom_naive`` is refused: a memory around values at wrong places grows without
            end. Write that pipeline out, without ``ef``.
        value: None (32 bits), ``fit_poly`` (degree 5, 8 pieces), ``fit_dexp``, ``deflate``,
            or ``qsgd`` (7 bits, buckets of 512).
        eps: the false positive rate of a Bloom filter; without one it says nothing.

    In a text, names that are also names of the catalogue stand in quotes:
    ``deepreduce(0.01, 'huffman', 'fit_poly')``.

    Raises ``ValueError`` for other settings.

    Example:
        >>> from compressors import text
        >>> text(deepreduce(0.01, "bloom_p0", "qsgd", eps=0.6))
        'ef(per_tensor(topk(0.01) | dither(63, bucket=512) | bloom(0.6)))'
    """
    check_share("deepreduce: p", p)
    for name, given, known in (("index", index, _INDEX), ("value", value, _VALUE)):
        if given not in known:
            allowed = ", ".join(str(one).lower() for one in known)
            raise ValueError(f"deepreduce: {name} is {shown(given)}: it is one of {allowed}")
    symbols: SymbolCode = Deflate() if value == "deflate" else Fixed()
    parts = Pipeline(_sparse(p), _values(value), _positions(index, eps), symbols)
    return ErrorFeedback(PerTensor(parts))


def skcompress(p: float, buckets: int = 128) -> Compressor:
    """SKCompress (Jiang et al. 2020) as DeepReduce sets it up (section 6.3).

    ``ef(per_tensor(topk(p) | sketch(buckets) | delta_huffman | huffman))``: quantile buckets
    whose numbers are Huffman codes, keys as steps in whole bytes whose counts are Huffman
    codes; 7 bits are 128 buckets. As there, without the grouped MinMaxSketch, "as it has only
    minor effects" (``sketchml`` has it). p = 1 takes every entry that is not zero.
    Raises ``ValueError`` unless 0 < p <= 1 and buckets is 2 to 65536.

    Example:
        >>> from compressors import text
        >>> text(skcompress(0.01))
        'ef(per_tensor(topk(0.01) | sketch(128) | delta_huffman | huffman))'
    """
    check_share("skcompress: p", p)
    return ErrorFeedback(
        PerTensor(Pipeline(_sparse(p), Sketch(buckets), DeltaHuffman(), Huffman()))
    )


def _sparse(p: float) -> Sparsifier:
    """Top-r, or the entries that are not zero."""
    return Nonzero() if p == 1 else TopK(p)


def _positions(index: str | None, eps: float) -> PositionCode:
    if index is None:
        return Raw32()
    if index.startswith("bloom_"):
        return Bloom(eps, index.removeprefix("bloom_"))
    return RunLength() if index == "rle" else IndexHuffman()


def _values(value: str | None) -> Quantizer:
    if value == "fit_poly":
        return FitPoly()
    if value == "fit_dexp":
        return FitDExp()
    return qsgd(_LEVELS, _BUCKET) if value == "qsgd" else Float32()

"""DeepReduce, which no text of parts says: its settings name their parts.

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
from compressors.quantize.dither import qsgd
from compressors.quantize.floats import Float32
from compressors.settings import check_share
from compressors.sparsify.threshold import Nonzero
from compressors.sparsify.topk import TopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import PerTensor
from compressors.whole.pipeline import Pipeline

_INDEX = (None, "bloom_naive", "bloom_p0", "bloom_p1", "bloom_p2", "rle", "huffman")
_VALUE = (None, "fit_poly", "fit_dexp", "deflate", "qsgd")


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

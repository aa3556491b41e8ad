"""Methods for many local steps between messages, from the training of large models."""

from compressors.base import Compressor
from compressors.quantize.bins import Bins, Steps
from compressors.quantize.floats import Float32
from compressors.settings import check_share
from compressors.sparsify.chunks import ChunkTopK
from compressors.sparsify.identity import Identity
from compressors.sparsify.topk import TopK
from compressors.whole.cosine import Cosine
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import PerTensor
from compressors.whole.pipeline import Pipeline
from compressors.whole.subset import Subset


def sparseloco(p: float = 0.015625, decay: float = 0.95, chunk: int = 4096) -> Compressor:
    """SparseLoCo (Sarfi et al. 2025, Algorithm 1): top-k in chunks, 2 bits, a memory that fades.

    ``ef(per_tensor(chunk_topk(p, chunk) | bins(2) | golomb), decay)``. The default is 64 of 4,096
    entries. The paper sends an index within a chunk in 12 bits; Golomb codes of gaps take about
    7.5 at this p. Its step on the server is the mean of the updates (``dsgd``), and the
    decay stands for DiLoCo's outer momentum. Raises ``ValueError`` for settings that ``ef`` and
    ``chunk_topk`` do not take.

    Example:
        >>> from compressors import text
        >>> text(sparseloco(0.01))
        'ef(per_tensor(chunk_topk(0.01) | bins(2) | golomb), 0.95)'
    """
    return ErrorFeedback(PerTensor(Pipeline(ChunkTopK(p, chunk), Bins(2))), decay)


def cocktailsgd(p: float, drawn: float = 0.1, bits: int = 4) -> Compressor:
    """CocktailSGD (Wang et al. 2023, section 3): drawn at random, then the largest, then few bits.

    ``ef(per_tensor(subset(drawn, topk(p / drawn) | steps(bits) | golomb)))``: a fraction ``p`` of
    all entries travels, the largest of a random fraction ``drawn``. Positions count among those
    that were drawn. At p = drawn all of them travel:
    ``ef(per_tensor(subset(drawn, steps(bits))))``. Raises ``ValueError`` unless
    0 < p <= drawn <= 1 and bits is 2 to 8.

    Example:
        >>> from compressors import text
        >>> text(cocktailsgd(0.02))
        'ef(per_tensor(subset(0.1, topk(0.2) | steps(4) | golomb)))'
    """
    check_share("cocktailsgd: drawn", drawn)
    check_share("cocktailsgd: p", p)
    if p > drawn:
        raise ValueError(f"cocktailsgd: p is {p}: at most drawn, which is {drawn}")
    largest = Identity() if p == drawn else TopK(round(p / drawn, 12))
    return ErrorFeedback(PerTensor(Subset(drawn, Pipeline(largest, Steps(bits)))))


def demo(p: float, decay: float = 0.999, size: int = 64) -> Compressor:
    """DeMo (Peng et al. 2024, Algorithm 1): the largest cosine coefficients of a client's momentum.

    ``ef(per_tensor(dct(size, chunk_topk(p, size * size) | float32 | golomb)), decay)``: the
    fading memory is the momentum, from which what was sent is taken away. The paper takes one
    step between messages (``temporal`` 1) and adds the sign of what all sent; here the server
    adds the mean. Raises ``ValueError`` for settings that the parts do not take.

    Example:
        >>> from compressors import text
        >>> text(demo(0.01))
        'ef(per_tensor(dct(64, chunk_topk(0.01) | float32 | golomb)), 0.999)'
    """
    coefficients = Pipeline(ChunkTopK(p, size * size), Float32())
    return ErrorFeedback(PerTensor(Cosine(size, coefficients)), decay)

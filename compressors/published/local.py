"""Methods for many local steps between messages, from the training of large models."""

from compressors.base import Compressor
from compressors.quantize.bins import Bins
from compressors.sparsify.chunks import ChunkTopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import PerTensor
from compressors.whole.pipeline import Pipeline


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

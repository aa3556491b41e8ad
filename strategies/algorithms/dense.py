"""What a dense method puts into its messages: for strategies that add codes in place of floats."""

from compressors import Compressor, ErrorFeedback, Flat, Identity, PerTensor, Pipeline
from compressors.whole.pipeline import Quantizer


def without_residuals(uplink: Compressor) -> Compressor:
    """The compressor inside ``ef``; any other as it is. Both decode to the same values."""
    return uplink.inner if isinstance(uplink, ErrorFeedback) else uplink


def dense_quantizer(uplink: Compressor) -> Quantizer | None:
    """How every entry is quantized; None unless all are, by one quantizer, and all are sent.

    Example:
        >>> from compressors import parse
        >>> dense_quantizer(parse("ef(cnat(5, 0))"))
        Natural(bits=5, top=0, rounding='random')
        >>> dense_quantizer(parse("topk(0.1) | cnat")) is None
        True
    """
    plain = without_residuals(uplink)
    pipe = plain.codec if isinstance(plain, PerTensor | Flat) else None
    if not isinstance(pipe, Pipeline) or pipe.sparsify != Identity():
        return None
    return pipe.quantize

"""Lossy and lossless compression of model updates: tensors to bytes and back, every bit counted.

``compress`` and ``decompress`` turn an update (names to float32 tensors) into a
message and back; ``parse`` makes a compressor from its text; ``CATALOGUE`` is the
table of all names. Runs on numpy, torch and numba alone (``zstd`` needs ``zstandard``).
"""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from compressors.base import (
        ALL,
        Compressor,
        Packet,
        Received,
        Sent,
        SentTensor,
        State,
        Tensors,
        VectorCodec,
        derive,
    )
    from compressors.bits import SPANS, BitReader, BitWriter
    from compressors.catalogue import CATALOGUE, ROWS, Row, add_rows, own_rows, row_files
    from compressors.coders.auto import Auto
    from compressors.coders.bloom import Bloom
    from compressors.coders.context import Context
    from compressors.coders.elias import EliasDelta, EliasGamma, EliasOmega
    from compressors.coders.fixed import Bitmap, Fixed, Raw32
    from compressors.coders.gaps import Delta16
    from compressors.coders.golomb import Golomb
    from compressors.coders.huffman import DeltaHuffman, Huffman, IndexHuffman
    from compressors.coders.rans import Ans
    from compressors.coders.runlength import RunLength, RunLengthHuffman
    from compressors.coders.sample_huffman import SampleHuffman, SparseHuffman
    from compressors.coders.zipped import Deflate, Zstd
    from compressors.contrib.integer_sum import Switch
    from compressors.contrib.quantizers import OneBit, RandomInteger
    from compressors.contrib.sparsifiers import Dryden, GSpar, RTopK
    from compressors.errors import MethodError, NotFinite, PartError, PayloadError, UpdateError
    from compressors.grammar import text, to_json
    from compressors.message import compress, decompress, explain, mean_of, receive
    from compressors.parsing import (
        ef_sign,
        from_json,
        gradient_dropping,
        parse,
        powersgd,
        q_sparse,
        sbc,
        skcompress,
        sketched,
        stc,
        structured_mask,
        topk_cnat,
    )
    from compressors.parts import (
        Place,
        PositionCode,
        Quantizer,
        Seeded,
        Sparsifier,
        SymbolCode,
        Symbols,
        code_dtype,
    )
    from compressors.published import deepreduce
    from compressors.quantize.compose import Shrink, Then
    from compressors.quantize.curvefit import FitDExp, FitPoly
    from compressors.quantize.dither import Dither, TernGrad, natural_dither, qsgd
    from compressors.quantize.floats import BFloat16, Float16, Float32
    from compressors.quantize.grid import Codebook, MinMax
    from compressors.quantize.magnitudes import Mean, SharedMagnitude, ternary
    from compressors.quantize.natural import Natural
    from compressors.quantize.sign import ScaledSign, Sign
    from compressors.quantize.sketch import Sketch
    from compressors.sparsify.blocks import Blocks
    from compressors.sparsify.randk import Bernoulli, RandK
    from compressors.sparsify.threshold import Identity, Nonzero, Threshold
    from compressors.sparsify.topk import OneSided, TopK
    from compressors.verify import check_decoded, verify
    from compressors.whole.dgc import DGC
    from compressors.whole.feedback import ErrorFeedback
    from compressors.whole.lift import ByName, Flat, PerTensor
    from compressors.whole.lowrank import LowRank
    from compressors.whole.pipeline import Pipeline
    from compressors.whole.raw import Raw
    from compressors.whole.rotate import Rotate
    from compressors.whole.sketchml import SketchML
    from compressors.whole.threelc import ThreeLC

__all__ = [
    "ALL", "Ans", "Auto", "BFloat16", "Bernoulli", "BitReader", "BitWriter", "Bitmap", "Blocks",
    "Bloom", "ByName", "CATALOGUE", "Codebook", "Compressor", "Context", "DGC", "Deflate",
    "Delta16", "DeltaHuffman", "Dither", "Dryden", "EliasDelta", "EliasGamma", "EliasOmega",
    "ErrorFeedback", "FitDExp", "FitPoly", "Fixed", "Flat", "Float16", "Float32", "GSpar", "Golomb",
    "Huffman", "Identity", "IndexHuffman", "LowRank", "Mean", "MethodError", "MinMax", "Natural",
    "Nonzero", "NotFinite", "OneBit", "OneSided", "Packet", "PartError", "PayloadError",
    "PerTensor", "Pipeline", "Place", "PositionCode", "Quantizer", "ROWS", "RTopK", "RandK",
    "RandomInteger", "Raw", "Raw32", "Received", "Rotate", "Row", "RunLength", "RunLengthHuffman",
    "SPANS", "SampleHuffman", "ScaledSign", "Seeded", "Sent", "SentTensor", "SharedMagnitude",
    "Shrink", "Sign", "Sketch", "SketchML", "SparseHuffman", "Sparsifier", "State", "Switch",
    "SymbolCode", "Symbols", "Tensors", "TernGrad", "Then", "ThreeLC", "Threshold", "TopK",
    "UpdateError", "VectorCodec", "Zstd", "add_rows", "check_decoded", "code_dtype", "compress",
    "decompress", "deepreduce", "derive", "ef_sign", "explain", "from_json", "gradient_dropping",
    "mean_of", "natural_dither", "own_rows", "row_files", "parse", "powersgd", "q_sparse", "qsgd",
    "receive", "sbc", "skcompress", "sketched", "stc", "structured_mask", "ternary", "text",
    "to_json", "topk_cnat", "verify",
]  # fmt: skip

make_lazy(__name__)

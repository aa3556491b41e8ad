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
        Sent,
        SentTensor,
        State,
        Tensors,
        VectorCodec,
        derive,
    )
    from compressors.bits import SPANS, BitReader, BitWriter
    from compressors.catalogue import CATALOGUE, ROWS, Row, own_rows
    from compressors.deepreduce import deepreduce, skcompress
    from compressors.dgc import DGC
    from compressors.errors import PartError, PayloadError, UpdateError
    from compressors.feedback import ErrorFeedback
    from compressors.integer_sum import Switch
    from compressors.lift import ByName, Flat, PerTensor
    from compressors.lowrank import LowRank
    from compressors.message import Packet, Received, compress, decompress, explain, receive
    from compressors.methods import ef_sign, gradient_dropping, sbc, stc
    from compressors.methods_more import powersgd, q_sparse, sketched, structured_mask, topk_cnat
    from compressors.parser import parse
    from compressors.pipeline import Pipeline
    from compressors.positions.auto import Auto
    from compressors.positions.base import PositionCode
    from compressors.positions.bitmap import Bitmap
    from compressors.positions.bloom import Bloom
    from compressors.positions.context import Context
    from compressors.positions.delta16 import Delta16
    from compressors.positions.delta_huffman import DeltaHuffman
    from compressors.positions.golomb import Golomb
    from compressors.positions.index_huffman import IndexHuffman
    from compressors.positions.raw32 import Raw32
    from compressors.quantize.base import Place, Quantizer, Symbols, code_dtype
    from compressors.quantize.compose import Then
    from compressors.quantize.dither import Dither, natural_dither, qsgd
    from compressors.quantize.floats import BFloat16, Float16, Float32
    from compressors.quantize.grid import Codebook, MinMax
    from compressors.quantize.integer import RandomInteger
    from compressors.quantize.magnitudes import SharedMagnitude, ternary
    from compressors.quantize.mean import Mean
    from compressors.quantize.natural import Natural
    from compressors.quantize.shrink import Shrink
    from compressors.quantize.sign import OneBit, ScaledSign, Sign
    from compressors.quantize.sketch import Sketch
    from compressors.quantize.terngrad import TernGrad
    from compressors.raw import Raw
    from compressors.rotate import Rotate
    from compressors.sketchml import SketchML
    from compressors.sparsify.base import Seeded, Sparsifier
    from compressors.sparsify.blocks import Blocks
    from compressors.sparsify.dryden import Dryden
    from compressors.sparsify.gspar import GSpar
    from compressors.sparsify.identity import Identity
    from compressors.sparsify.randk import Bernoulli, RandK
    from compressors.sparsify.rtopk import RTopK
    from compressors.sparsify.threshold import Nonzero, Threshold
    from compressors.sparsify.topk import OneSided, TopK
    from compressors.symbols.base import SymbolCode
    from compressors.symbols.elias import EliasDelta, EliasGamma, EliasOmega
    from compressors.symbols.fixed import Fixed
    from compressors.symbols.huffman import Huffman
    from compressors.symbols.rans import Ans
    from compressors.symbols.runlength import RunLength
    from compressors.symbols.runlength_huffman import RunLengthHuffman
    from compressors.symbols.sample_huffman import SampleHuffman, SparseHuffman
    from compressors.symbols.zipped import Deflate, Zstd
    from compressors.text import from_json, text, to_json
    from compressors.threelc import ThreeLC
    from compressors.values.curvefit import FitPoly
    from compressors.values.dexp import FitDExp
    from compressors.verifying import check_decoded, verify

__all__ = [
    "ALL",
    "Ans",
    "Auto",
    "BFloat16",
    "Bernoulli",
    "BitReader",
    "BitWriter",
    "Bitmap",
    "Blocks",
    "Bloom",
    "ByName",
    "CATALOGUE",
    "Codebook",
    "Compressor",
    "Context",
    "DGC",
    "Deflate",
    "Delta16",
    "DeltaHuffman",
    "Dither",
    "Dryden",
    "EliasDelta",
    "EliasGamma",
    "EliasOmega",
    "ErrorFeedback",
    "FitDExp",
    "FitPoly",
    "Fixed",
    "Flat",
    "Float16",
    "Float32",
    "GSpar",
    "Golomb",
    "Huffman",
    "Identity",
    "IndexHuffman",
    "LowRank",
    "Mean",
    "MinMax",
    "Natural",
    "Nonzero",
    "OneBit",
    "OneSided",
    "Packet",
    "PartError",
    "PayloadError",
    "PerTensor",
    "Pipeline",
    "Place",
    "PositionCode",
    "Quantizer",
    "ROWS",
    "RTopK",
    "RandK",
    "RandomInteger",
    "Raw",
    "Raw32",
    "Received",
    "Rotate",
    "Row",
    "RunLength",
    "RunLengthHuffman",
    "SPANS",
    "SampleHuffman",
    "ScaledSign",
    "Seeded",
    "Sent",
    "SentTensor",
    "SharedMagnitude",
    "Shrink",
    "Sign",
    "Sketch",
    "SketchML",
    "SparseHuffman",
    "Sparsifier",
    "State",
    "Switch",
    "SymbolCode",
    "Symbols",
    "Tensors",
    "TernGrad",
    "Then",
    "ThreeLC",
    "Threshold",
    "TopK",
    "UpdateError",
    "VectorCodec",
    "Zstd",
    "check_decoded",
    "code_dtype",
    "compress",
    "decompress",
    "deepreduce",
    "derive",
    "ef_sign",
    "explain",
    "from_json",
    "gradient_dropping",
    "natural_dither",
    "own_rows",
    "parse",
    "powersgd",
    "q_sparse",
    "qsgd",
    "receive",
    "sbc",
    "skcompress",
    "sketched",
    "stc",
    "structured_mask",
    "ternary",
    "text",
    "to_json",
    "topk_cnat",
    "verify",
]

make_lazy(__name__)

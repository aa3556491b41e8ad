"""Lossy and lossless compression of model updates: tensors to bytes and back, every bit counted.

``compress`` and ``decompress`` turn an update (names to float32 tensors) into a
message and back; ``parse`` makes a compressor from its text; ``CATALOGUE`` is the
table of all names. Runs on numpy, torch and numba alone.
"""

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
from compressors.catalogue import CATALOGUE, ROWS, Row
from compressors.dgc import DGC
from compressors.errors import PayloadError, UpdateError
from compressors.feedback import ErrorFeedback
from compressors.integer_sum import Switch
from compressors.lift import ByName, Flat, PerTensor
from compressors.lowrank import LowRank
from compressors.message import Packet, Received, compress, decompress, explain, receive
from compressors.methods import ef_sign, gradient_dropping, sbc, stc
from compressors.methods_more import powersgd, q_sparse, sketched, structured_mask, topk_cnat
from compressors.parser import parse
from compressors.pipeline import Pipeline
from compressors.positions.context import Context
from compressors.positions.golomb import Golomb
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
from compressors.sparsify.blocks import Blocks
from compressors.sparsify.dryden import Dryden
from compressors.sparsify.identity import Identity
from compressors.sparsify.randk import Bernoulli, RandK
from compressors.sparsify.rtopk import RTopK
from compressors.sparsify.threshold import Nonzero, Threshold
from compressors.sparsify.topk import OneSided, TopK
from compressors.symbols.fixed import Fixed
from compressors.text import from_json, text, to_json

__all__ = [
    "ALL",
    "BFloat16",
    "Bernoulli",
    "BitReader",
    "BitWriter",
    "Blocks",
    "ByName",
    "CATALOGUE",
    "Codebook",
    "Compressor",
    "Context",
    "DGC",
    "Dither",
    "Dryden",
    "ErrorFeedback",
    "Fixed",
    "Flat",
    "Float16",
    "Float32",
    "Golomb",
    "Identity",
    "LowRank",
    "Mean",
    "MinMax",
    "Natural",
    "Nonzero",
    "OneBit",
    "OneSided",
    "Packet",
    "PayloadError",
    "PerTensor",
    "Pipeline",
    "ROWS",
    "RTopK",
    "RandK",
    "RandomInteger",
    "Raw",
    "Received",
    "Rotate",
    "Row",
    "SPANS",
    "ScaledSign",
    "Sent",
    "SentTensor",
    "SharedMagnitude",
    "Shrink",
    "Sign",
    "Sketch",
    "State",
    "Switch",
    "Tensors",
    "TernGrad",
    "Then",
    "Threshold",
    "TopK",
    "UpdateError",
    "VectorCodec",
    "compress",
    "decompress",
    "derive",
    "ef_sign",
    "explain",
    "from_json",
    "gradient_dropping",
    "natural_dither",
    "parse",
    "powersgd",
    "q_sparse",
    "qsgd",
    "receive",
    "sbc",
    "sketched",
    "stc",
    "structured_mask",
    "ternary",
    "text",
    "to_json",
    "topk_cnat",
]

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
from compressors.errors import PayloadError, UpdateError
from compressors.feedback import ErrorFeedback
from compressors.lift import ByName, Flat, PerTensor
from compressors.message import Packet, Received, compress, decompress, explain, receive
from compressors.methods import gradient_dropping, sbc
from compressors.parser import parse
from compressors.pipeline import Pipeline
from compressors.positions.golomb import Golomb
from compressors.quantize.floats import Float32
from compressors.quantize.mean import Mean
from compressors.raw import Raw
from compressors.sparsify.identity import Identity
from compressors.sparsify.topk import OneSided, TopK
from compressors.symbols.fixed import Fixed
from compressors.text import from_json, text, to_json

__all__ = [
    "ALL",
    "BitReader",
    "BitWriter",
    "ByName",
    "CATALOGUE",
    "Compressor",
    "ErrorFeedback",
    "Fixed",
    "Flat",
    "Float32",
    "Golomb",
    "Identity",
    "Mean",
    "OneSided",
    "Packet",
    "PayloadError",
    "PerTensor",
    "Pipeline",
    "ROWS",
    "Raw",
    "Received",
    "Row",
    "SPANS",
    "Sent",
    "SentTensor",
    "State",
    "Tensors",
    "TopK",
    "UpdateError",
    "VectorCodec",
    "compress",
    "decompress",
    "derive",
    "explain",
    "from_json",
    "gradient_dropping",
    "parse",
    "receive",
    "sbc",
    "text",
    "to_json",
]

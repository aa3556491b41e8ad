"""The one table of everything that has a name: parts, compressors and published methods.

The contract suite, the catalogue page, the command line and the benchmarks run over
these rows. To add a method: its class, its row here, its golden bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from compressors import methods
from compressors.feedback import ErrorFeedback
from compressors.lift import ByName, Flat, PerTensor
from compressors.positions.golomb import Golomb
from compressors.quantize import Float32, Mean
from compressors.raw import Raw
from compressors.sparsify import OneSided, TopK
from compressors.symbols.fixed import Fixed

Kind = Literal["sparsifier", "quantizer", "positions", "symbols", "compressor", "method"]


@dataclass(frozen=True)
class Row:
    """One name: what it makes, what it is, where it comes from, and one legal text of it.

    ``make`` is a class, or for a published method the function that builds it. An
    ``example`` is a whole compressor in which the row takes part.
    """

    name: str
    kind: Kind
    make: Callable[..., Any]
    title: str
    source: str
    example: str


_SBC = "Sattler et al. 2018"
_DROP = "Aji & Heafield 2017"

ROWS: tuple[Row, ...] = (
    Row("sbc", "method", methods.sbc, "Sparse Binary Compression", f"{_SBC}, Algorithm 2",
        "sbc(0.01)"),
    Row("gradient_dropping", "method", methods.gradient_dropping, "Gradient dropping",
        f"{_DROP}, section 3", "gradient_dropping(0.01)"),
    Row("raw", "compressor", Raw, "Every entry as float32: dense", "reference", "raw"),
    Row("per_tensor", "compressor", PerTensor, "A codec on each tensor (local threshold)",
        f"{_DROP}, section 3", "per_tensor(topk(0.01) | float32 | golomb)"),
    Row("flat", "compressor", Flat, "A codec on the whole update (global threshold)",
        f"{_DROP}, section 3", "flat(topk(0.01) | float32 | golomb)"),
    Row("by_name", "compressor", ByName, "Rules by name or size of a tensor", "fedsim",
        "by_name('size<256', raw, '*', sbc(0.01))"),
    Row("ef", "compressor", ErrorFeedback, "Residual accumulation (error feedback)",
        f"{_SBC}, equation 2", "ef(per_tensor(topk(0.01) | float32 | golomb))"),
    Row("topk", "sparsifier", TopK, "The fraction p of largest magnitude, exactly",
        f"{_DROP}, section 3", "topk(0.01) | float32 | golomb"),
    Row("one_sided", "sparsifier", OneSided, "The largest or the smallest fraction p",
        f"{_SBC}, Algorithm 2", "one_sided(0.01) | float32 | golomb"),
    Row("float32", "quantizer", Float32, "Values as they are, 32 bits each", "IEEE 754",
        "topk(0.1) | float32 | golomb"),
    Row("mean", "quantizer", Mean, "One mean a tensor, no bits a value",
        f"{_SBC}, Algorithm 2", "one_sided(0.01) | mean | golomb"),
    Row("golomb", "positions", Golomb, "Golomb (Rice) codes of gaps",
        f"{_SBC}, Algorithms 3 and 4", "topk(0.01) | float32 | golomb(0.02)"),
    Row("fixed", "symbols", Fixed, "Symbols of equal width", "reference",
        "topk(0.1) | float32 | golomb | fixed"),
)

CATALOGUE: dict[str, Row] = {row.name: row for row in ROWS}

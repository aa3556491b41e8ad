"""Rows of the catalogue for methods beside those of the five papers, most of them newer."""

from compressors.row import Row

_DRIVE = "Vargaftik et al. 2021"
_SPARSELOCO = "Sarfi et al. 2025"
_EDEN = "Vargaftik et al. 2022"

RECENT = (
    Row("drive", "method", "published.rotated:drive", "DRIVE: rotated signs, a scale per block",
        f"{_DRIVE}, Algorithm 1", "drive()"),
    Row("eden", "method", "published.rotated:eden",
        "EDEN: rotated, the nearest level for normal values, a scale per block",
        f"{_EDEN}, Algorithm 1", "eden(2)"),
    Row("signsgd", "method", "published.quantized:signsgd", "signSGD: the sign of every entry",
        "Bernstein et al. 2018, Algorithm 1", "signsgd(0.01)"),
    Row("fedpaq", "method", "published.quantized:fedpaq",
        "FedPAQ: QSGD of the whole update, no memory", "Reisizadeh et al. 2020, Algorithm 1",
        "fedpaq(7)"),
    Row("sparseloco", "method", "published.local:sparseloco",
        "SparseLoCo: top-k within chunks, 2 bits, a memory that fades",
        f"{_SPARSELOCO}, Algorithm 1", "sparseloco(0.05, 0.9)"),
    Row("chunk_topk", "sparsifier", "sparsify.chunks:ChunkTopK",
        "The fraction p of largest magnitude of every chunk", f"{_SPARSELOCO}; Peng et al. 2024",
        "chunk_topk(0.1, 64) | float32 | golomb"),
    Row("bins", "quantizer", "quantize.bins:Bins", "Even bins around the mean, and their means",
        _SPARSELOCO, "topk(0.3) | bins(2) | golomb"),
    Row("steps", "quantizer", "quantize.bins:Steps",
        "The nearest whole number of steps, int4 or int8, a step per bucket",
        "Wang et al. 2023 (CocktailSGD)", "steps(4, 64)"),
    Row("elias_gaps", "symbols", "coders.elias_gaps:EliasGaps",
        "QSGD's own format: gaps, signs and levels in Elias codes",
        "Alistarh et al. 2017, section 3.2", "qsgd(3) | elias_gaps"),
    Row("lloyd", "quantizer", "quantize.lloyd:Lloyd",
        "The nearest of 2^b levels for normal values, a scale per block of a rotation",
        f"{_DRIVE}; {_EDEN}", "rotate(lloyd(4, least))"),
)  # fmt: skip
"""Behind those of ``compressors.catalogue``, which says what a row is."""

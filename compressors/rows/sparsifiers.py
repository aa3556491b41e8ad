"""Sparsifiers."""

from compressors.rows.base import DROP, SBC, Row
from compressors.sparsify.identity import Identity
from compressors.sparsify.topk import OneSided, TopK

ROWS = (
    Row("identity", "sparsifier", Identity, "Every entry; may be left out", "reference",
        "identity | float32"),
    Row("topk", "sparsifier", TopK, "The fraction p of largest magnitude, exactly",
        f"{DROP}, section 3", "topk(0.01) | float32 | golomb"),
    Row("one_sided", "sparsifier", OneSided, "The largest or the smallest fraction p",
        f"{SBC}, Algorithm 2", "one_sided(0.01) | float32 | golomb"),
)  # fmt: skip

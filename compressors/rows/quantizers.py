"""Quantizers of the whole family; each family of them adds its own rows here."""

from compressors.rows.base import SBC, Row

ROWS = (
    Row("float32", "quantizer", "quantize.floats:Float32",
        "Values as they are, 32 bits each", "IEEE 754",
        "topk(0.1) | float32 | golomb"),
    Row("mean", "quantizer", "quantize.mean:Mean", "One mean a tensor, no bits a value",
        f"{SBC}, Algorithm 2", "one_sided(0.01) | mean | golomb"),
)  # fmt: skip

"""Natural compression, small floats, and one quantizer on top of another."""

from compressors.quantize.compose import Then
from compressors.quantize.floats import BFloat16, Float16
from compressors.quantize.natural import Natural
from compressors.quantize.shrink import Shrink
from compressors.rows.base import CNAT, Row

ROWS = (
    Row("cnat", "quantizer", Natural, "Natural compression: signs and powers of two, 9 bits",
        f"{CNAT}, Definition 1", "cnat"),
    Row("float16", "quantizer", Float16, "Half precision, 16 bits each", "IEEE 754",
        "topk(0.1) | float16 | golomb"),
    Row("bfloat16", "quantizer", BFloat16, "The upper half of a float32, 16 bits each",
        "reference", "topk(0.1) | bfloat16 | golomb"),
    Row("then", "quantizer", Then, "One quantizer on top of another", f"{CNAT}, Theorem 5",
        "topk(0.1) | then(bfloat16, cnat(8)) | golomb"),
    Row("shrink", "quantizer", Shrink, "An unbiased quantizer over 1 + omega: a contraction",
        "Basu et al. 2019", "ef(topk(0.1) | shrink(qsgd(7)) | golomb)"),
)  # fmt: skip

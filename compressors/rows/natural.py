"""Natural compression, small floats, and one quantizer on top of another."""

from compressors.rows.base import CNAT, Row

ROWS = (
    Row("cnat", "quantizer", "quantize.natural:Natural",
        "Natural compression: signs and powers of two, 9 bits",
        f"{CNAT}, Definition 1", "cnat"),
    Row("float16", "quantizer", "quantize.floats:Float16",
        "Half precision, 16 bits each", "IEEE 754",
        "topk(0.1) | float16 | golomb"),
    Row("bfloat16", "quantizer", "quantize.floats:BFloat16",
        "The upper half of a float32, 16 bits each",
        "reference", "topk(0.1) | bfloat16 | golomb"),
    Row("then", "quantizer", "quantize.compose:Then",
        "One quantizer on top of another", f"{CNAT}, Theorem 5",
        "topk(0.1) | then(bfloat16, cnat(8)) | golomb"),
    Row("shrink", "quantizer", "quantize.shrink:Shrink",
        "An unbiased quantizer over 1 + omega: a contraction",
        "Basu et al. 2019", "ef(topk(0.1) | shrink(qsgd(7)) | golomb)"),
)  # fmt: skip

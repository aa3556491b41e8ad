"""Quantizers that round to levels by chance: dithering, ternary, even grids, whole numbers."""

from compressors.rows.base import CNAT, HUFFMAN, Row

ROWS = (
    Row("dither", "quantizer", "quantize.dither:Dither",
        "General random dithering, sign and level in one symbol",
        f"{CNAT}, Definition 6", "dither(7, 1, natural, bucket=64, norm_code=cnat)"),
    Row("qsgd", "quantizer", "quantize.dither:qsgd", "QSGD: standard dithering in the 2-norm",
        "Alistarh et al. 2017, section 3.1", "topk(0.1) | qsgd(15) | golomb"),
    Row("natural_dither", "quantizer", "quantize.dither:natural_dither",
        "Natural dithering: powers of two as levels",
        f"{CNAT}, section 3.2", "natural_dither(7)"),
    Row("terngrad", "quantizer", "quantize.terngrad:TernGrad",
        "TernGrad: sign or zero, after clipping",
        "Wen et al. 2017, equations 3 to 9", "terngrad"),
    Row("minmax", "quantizer", "quantize.grid:MinMax",
        "Random rounding to even levels between the extremes",
        "Konečný et al. 2016, section 3", "minmax(4)"),
    Row("codebook", "quantizer", "quantize.grid:Codebook",
        "Random rounding to a grid of b bits and step delta",
        f"{HUFFMAN}, equation 1", "codebook(6, 0.25)"),
    Row("cint", "quantizer", "quantize.integer:RandomInteger", "Random rounding to whole numbers",
        f"{CNAT}, Theorem 4", "cint"),
)  # fmt: skip

"""Signs, magnitudes that values share, and quantile buckets."""

from compressors.rows.base import DROP, Row

ROWS = (
    Row("sign", "quantizer", "quantize.sign:Sign",
        "The sign and a magnitude that is known, 1 bit (signSGD)",
        "Bernstein et al. 2018, Algorithm 1", "sign(0.5)"),
    Row("l1_sign", "quantizer", "quantize.sign:ScaledSign",
        "The sign and the mean magnitude, 1 bit (EF-signSGD)",
        "Karimireddy et al. 2019, section 4", "l1_sign"),
    Row("onebit", "quantizer", "quantize.sign:OneBit",
        "The means of both signs in each column, 1 bit (1-bit SGD)",
        "Seide et al. 2014, section 3", "onebit"),
    Row("magnitude", "quantizer", "quantize.magnitudes:SharedMagnitude",
        "The sign and a shared magnitude after dropping, 1 or 2 bits",
        f"{DROP}, section 5.4", "topk(0.1) | magnitude(min, 2) | golomb"),
    Row("ternary", "quantizer", "quantize.magnitudes:ternary",
        "The sign and the mean magnitude of the kept entries",
        "Sattler et al. 2020", "topk(0.1) | ternary() | golomb"),
    Row("sketch", "quantizer", "quantize.sketch:Sketch",
        "Quantile buckets and their means (SketchML)",
        "Jiang et al. 2018, section 3.2", "sketch(16)"),
)  # fmt: skip

"""Published methods: names that print their expansion."""

from compressors.rows.base import DROP, SBC, Row

ROWS = (
    Row("sbc", "method", "methods:sbc", "Sparse Binary Compression", f"{SBC}, Algorithm 2",
        "sbc(0.01)"),
    Row("gradient_dropping", "method", "methods:gradient_dropping", "Gradient dropping",
        f"{DROP}, section 3", "gradient_dropping(0.01)"),
    Row("ef_sign", "method", "methods:ef_sign", "Scaled signs with error feedback (EF-signSGD)",
        "Karimireddy et al. 2019, Algorithm 1", "ef_sign()"),
    Row("stc", "method", "methods:stc", "Sparse ternary compression", "Sattler et al. 2020",
        "stc(0.01)"),
)  # fmt: skip

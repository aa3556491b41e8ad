"""Whole compressors, and codecs of one tensor that are not pipelines."""

from compressors.rows.base import DROP, SBC, Row

ROWS = (
    Row("raw", "compressor", "whole.raw:Raw", "Every entry as float32: dense", "reference", "raw"),
    Row("per_tensor", "compressor", "whole.lift:PerTensor",
        "A codec on each tensor (local threshold)",
        f"{DROP}, section 3", "per_tensor(topk(0.01) | float32 | golomb)"),
    Row("flat", "compressor", "whole.lift:Flat", "A codec on the whole update (global threshold)",
        f"{DROP}, section 3", "flat(topk(0.01) | float32 | golomb)"),
    Row("by_name", "compressor", "whole.lift:ByName", "Rules by name or size of a tensor", "fedsim",
        "by_name('size<256', raw, '*', sbc(0.01))"),
    Row("ef", "compressor", "whole.feedback:ErrorFeedback",
        "Residual accumulation (error feedback)",
        f"{SBC}, equation 2", "ef(per_tensor(topk(0.01) | float32 | golomb))"),
)  # fmt: skip

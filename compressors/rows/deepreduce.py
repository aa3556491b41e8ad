"""DeepReduce and the codecs that it is compared with."""

from compressors.rows.base import DEEPREDUCE, Row

ROWS = (
    Row("bloom", "positions", "coders.bloom:Bloom",
        "A Bloom filter of the positions; lossy by policy",
        f"{DEEPREDUCE}, section 4", "topk(0.1) | float32 | bloom(0.01, p2)"),
    Row("fit_poly", "quantizer", "quantize.curvefit:FitPoly",
        "Sorted values as piecewise polynomials",
        f"{DEEPREDUCE}, section 5", "topk(0.5) | fit_poly(2, 4) | golomb"),
    Row("fit_dexp", "quantizer", "quantize.dexp:FitDExp",
        "Sorted magnitudes as a double exponential",
        f"{DEEPREDUCE}, section 5", "topk(0.5) | fit_dexp | golomb"),
    Row("threelc", "codec", "whole.threelc:ThreeLC",
        "3LC: ternary, five entries a byte, runs of zeros",
        "Lim et al. 2019, section 3", "ef(threelc(1.75))"),
    Row("sketchml", "codec", "whole.sketchml:SketchML",
        "SketchML: quantile buckets in MinMaxSketches, delta keys",
        "Jiang et al. 2018, section 3", "ef(sketchml(0.3, 16, 4))"),
    Row("skcompress", "method", "deepreduce:skcompress",
        "SKCompress: quantile buckets and delta keys by Huffman",
        f"Jiang et al. 2020; {DEEPREDUCE}, section 6.3", "skcompress(0.1, 16)"),
    Row("deepreduce", "method", "deepreduce:deepreduce",
        "DeepReduce: a coder for indices, a coder for values", f"{DEEPREDUCE}, Table 3",
        "deepreduce(0.1, bloom_p0, 'qsgd')"),
)  # fmt: skip

"""Methods that see a whole update at once, and named combinations."""

from compressors.rows.base import CNAT, Row

POWERSGD = "Vogels et al. 2019"
KONECNY = "Konečný et al. 2016"

ROWS = (
    Row("powersgd", "method", "methods_more:powersgd", "PowerSGD: low rank with error feedback",
        f"{POWERSGD}, Algorithms 1 and 2", "powersgd(2)", portable=False),
    Row("structured_mask", "method", "methods_more:structured_mask",
        "Structured update: a random mask", f"{KONECNY}, section 2", "structured_mask(0.1)"),
    Row("sketched", "method", "methods_more:sketched",
        "Sketched update: rotated, subsampled, quantized", f"{KONECNY}, section 3",
        "sketched(0.25, 2)"),
    Row("q_sparse", "method", "methods_more:q_sparse", "Qsparse-local-SGD: top-k, then QSGD",
        "Basu et al. 2019, section 3", "q_sparse(0.05, 7)"),
    Row("topk_cnat", "method", "methods_more:topk_cnat", "Top-k, then natural compression",
        f"{CNAT}, section 5.4", "topk_cnat(0.01)"),
    Row("lowrank", "compressor", "whole.lowrank:LowRank",
        "Matrices as two thin factors, warm started",
        f"{POWERSGD}, Algorithm 1", "lowrank(2)", portable=False),
    Row("dgc", "compressor", "whole.dgc:DGC",
        "Deep Gradient Compression: top-k of momentum residuals",
        "Lin et al. 2018, section 3", "dgc(0.01)"),
    Row("rotate", "codec", "whole.rotate:Rotate", "A random Hadamard rotation before another codec",
        f"{KONECNY}, section 3", "rotate(randk(0.25) | minmax(4))"),
)  # fmt: skip

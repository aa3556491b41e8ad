"""Sparsifiers."""

from compressors.rows.base import CNAT, DROP, SBC, Row

ROWS = (
    Row("identity", "sparsifier", "sparsify.identity:Identity",
        "Every entry; may be left out", "reference",
        "identity | float32"),
    Row("topk", "sparsifier", "sparsify.topk:TopK",
        "The fraction p of largest magnitude; exact, or by a sample",
        f"{DROP}, sections 3 and 4", "topk(0.01) | float32 | golomb"),
    Row("one_sided", "sparsifier", "sparsify.topk:OneSided",
        "The largest or the smallest fraction p",
        f"{SBC}, Algorithm 2", "one_sided(0.01) | float32 | golomb"),
    Row("dryden", "sparsifier", "sparsify.dryden:Dryden",
        "The fraction p of either sign, largest first",
        "Dryden et al. 2016", "dryden(0.01) | float32 | golomb"),
    Row("threshold", "sparsifier", "sparsify.threshold:Threshold", "Entries of magnitude t or more",
        "Strom 2015", "threshold(7.5) | float32 | golomb"),
    Row("nonzero", "sparsifier", "sparsify.threshold:Nonzero",
        "Every entry that is not zero", "reference",
        "nonzero | float32 | golomb"),
    Row("blocks", "sparsifier", "sparsify.blocks:Blocks",
        "Blocks of b entries that hold a non-zero, or the largest",
        "Fei et al. 2020 (OmniReduce)", "blocks(8, 0.1) | float32 | golomb"),
    Row("randk", "sparsifier", "sparsify.randk:RandK",
        "A random fraction p, positions from the seed",
        "Stich et al. 2018; Wangni et al. 2018", "randk(0.1) | float32"),
    Row("bernoulli", "sparsifier", "sparsify.randk:Bernoulli", "Each entry with probability q",
        f"{CNAT}, Table 1", "bernoulli(0.1) | float32"),
    Row("rtopk", "sparsifier", "sparsify.rtopk:RTopK",
        "A random fraction p out of the largest fraction m",
        "Barnes et al. 2020; Elibol et al. 2020", "rtopk(0.05, 0.2) | float32 | golomb"),
)  # fmt: skip

"""Sparsifiers."""

from compressors.rows.base import CNAT, DROP, SBC, Row
from compressors.sparsify.blocks import Blocks
from compressors.sparsify.dryden import Dryden
from compressors.sparsify.gspar import GSpar
from compressors.sparsify.identity import Identity
from compressors.sparsify.randk import Bernoulli, RandK
from compressors.sparsify.rtopk import RTopK
from compressors.sparsify.threshold import Nonzero, Threshold
from compressors.sparsify.topk import OneSided, TopK

ROWS = (
    Row("identity", "sparsifier", Identity, "Every entry; may be left out", "reference",
        "identity | float32"),
    Row("topk", "sparsifier", TopK, "The fraction p of largest magnitude; exact, or by a sample",
        f"{DROP}, sections 3 and 4", "topk(0.01) | float32 | golomb"),
    Row("one_sided", "sparsifier", OneSided, "The largest or the smallest fraction p",
        f"{SBC}, Algorithm 2", "one_sided(0.01) | float32 | golomb"),
    Row("dryden", "sparsifier", Dryden, "The fraction p of either sign, largest first",
        "Dryden et al. 2016", "dryden(0.01) | float32 | golomb"),
    Row("threshold", "sparsifier", Threshold, "Entries of magnitude t or more",
        "Strom 2015", "threshold(7.5) | float32 | golomb"),
    Row("nonzero", "sparsifier", Nonzero, "Every entry that is not zero", "reference",
        "nonzero | float32 | golomb"),
    Row("blocks", "sparsifier", Blocks, "Blocks of b entries that hold a non-zero, or the largest",
        "Fei et al. 2020 (OmniReduce)", "blocks(8, 0.1) | float32 | golomb"),
    Row("randk", "sparsifier", RandK, "A random fraction p, positions from the seed",
        "Konečný et al. 2016; Stich et al. 2018", "randk(0.1) | float32"),
    Row("bernoulli", "sparsifier", Bernoulli, "Each entry with probability q",
        f"{CNAT}, Table 1", "bernoulli(0.1) | float32"),
    Row("gspar", "sparsifier", GSpar, "Each entry with a chance in proportion to its magnitude",
        "Wangni et al. 2018, section 3", "gspar(0.1) | float32 | golomb"),
    Row("rtopk", "sparsifier", RTopK, "A random fraction p out of the largest fraction m",
        "Barnes et al. 2020; Elibol et al. 2020", "rtopk(0.05, 0.2) | float32 | golomb"),
)  # fmt: skip

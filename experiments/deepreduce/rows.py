"""The methods of DeepReduce's figures, and what the paper's formulas say that they send."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedsim.measure.theory.deepreduce import expected_positives, filter_bits

P, P_DENSENET = 0.01, 0.005  # r / d of Top-r, the paper's for ResNet-20 and for DenseNet40
CHOSEN = 0.001  # the rate of false positives of every figure but Figure 6
RATES = (0.001, 0.01, 0.1)
POLICIES = ("p0", "p1", "p2")
P_RANDOM = 0.1  # 1 % at random does not learn in a short run: an entry travels every 100th round
SPARSIFIERS = {
    "topr": ("Top-r", f"topk({P:g})"),
    "randr": ("Random-r", f"randk({P_RANDOM:g}, false, false)"),  # unscaled, positions written
    "halfr": ("Top-r, 0.5 %", f"topk({P_DENSENET:g})"),
}
SHARES = {"topr": P, "randr": P_RANDOM, "halfr": P_DENSENET}
"""r / d of each sparsifier."""
_POLICY_FIGURES = {
    "p0": (6, 7, 10, 15),
    "p1": (6, 7, 15),
    "p2": (6, 7, 9, 10, 15),
    "naive": (7, 15),
}


@dataclass(frozen=True)
class Row:
    """A method; ``figures`` of the paper that show it, and the Bloom filter's settings."""

    name: str
    title: str
    method: str
    figures: tuple[int, ...]
    sparsifier: str = ""
    policy: str = ""
    eps: float = float("nan")


def _bloom(sparsifier: str, policy: str, eps: float) -> Row:
    title, select = SPARSIFIERS[sparsifier]
    figures = _POLICY_FIGURES[policy] if (sparsifier, eps) == ("topr", CHOSEN) else (6,)
    figures = (15,) if sparsifier == "halfr" else figures
    codec = f"per_tensor({select} | float32 | bloom({eps:g}, {policy}))"
    # With a memory, values at wrong places come back larger every round, until they overflow.
    method = codec if policy == "naive" else f"ef({codec})"
    label = f"{title}, BF-{policy.capitalize()}, {eps:g}"
    return Row(f"{sparsifier}-{policy}-{eps:g}", label, method, figures, title, policy, eps)


def _combined(name: str, title: str, index: str, value: str, figures: tuple[int, ...]) -> Row:
    """A named combination of the paper's Table 3 on Top-r."""
    return Row(name, title, f"deepreduce({P:g}, {index}, {value})", figures, "Top-r")


ROWS = {
    row.name: row
    for row in (
        Row("dense", "no compression", "raw", (6, 7, 8, 9, 15)),
        Row("topr", "Top-r", f"deepreduce({P:g}, none)", (6, 7, 8, 9, 10, 15), "Top-r"),
        Row(
            "randr",
            "Random-r",
            f"ef(per_tensor({SPARSIFIERS['randr'][1]} | float32 | raw32))",
            (6,),
            "Random-r",
        ),
        *(
            _bloom(s, policy, eps)
            for s in ("topr", "randr")
            for policy in POLICIES
            for eps in RATES
        ),
        _bloom("topr", "naive", CHOSEN),
        Row("halfr", "Top-r, 0.5 %", f"deepreduce({P_DENSENET:g}, none)", (15,), "Top-r, 0.5 %"),
        *(_bloom("halfr", policy, CHOSEN) for policy in (*POLICIES, "naive")),
        _combined("rle", "RLE", "'rle'", "none", (10,)),
        _combined("huffman", "Huffman", "'huffman'", "none", (10,)),
        _combined("fit-poly", "Fit-Poly", "none", "'fit_poly'", (8, 9, 10)),
        _combined("fit-dexp", "Fit-DExp", "none", "'fit_dexp'", (8, 10)),
        _combined("deflate", "Deflate", "none", "'deflate'", (10,)),
        _combined("qsgd", "QSGD", "none", "'qsgd'", (10,)),
        _combined("p0-fit-poly", "BF-P0, Fit-Poly", "bloom_p0", "'fit_poly'", (10,)),
        _combined("p2-qsgd", "BF-P2, QSGD", "bloom_p2", "'qsgd'", (10,)),
        Row("skcompress", "SKCompress", f"skcompress({P:g}, 128)", (10,), "Top-r"),
        Row("golomb", "Golomb", f"ef(per_tensor(topk({P:g}) | float32 | golomb))", (10,), "Top-r"),
        Row("3lc", "3LC", "ef(threelc(1))", (9,)),
        Row("sketchml", "SketchML", "ef(sketchml(1, 64))", (9,)),
    )
}
"""All rows by name. ``golomb`` is not in the paper: a lossless code beside the Bloom filters."""

DOZEN = [
    "dense",
    "topr",
    *(f"topr-{policy}-{CHOSEN:g}" for policy in POLICIES),
    "fit-poly",
    "fit-dexp",
    "qsgd",
    "p0-fit-poly",
    "p2-qsgd",
    "skcompress",
    "golomb",
]
"""The rows of the task on which a run is dearest, ``char_lstm``."""
DENSENET = ["dense", *(name for name in ROWS if name.startswith("halfr"))]
"""Figure 15b, of DenseNet40."""


def predicted_percent(row: Row, sizes: Iterable[int]) -> float:
    """Volume of a Bloom filter and float32 values by the formulas, in per cent of dense float32.

    Remark 2 for the filter and, for P0, Lemma 5 for how many values travel; ``sizes`` are the
    tensors' entries.

    Example:
        >>> round(predicted_percent(ROWS["topr-p1-0.001"], [1_000_000]), 3)  # 1 % * 46.378 / 32
        1.449
    """
    share = SHARES[row.name.split("-")[0]]
    bits = total = 0.0
    for d in sizes:
        r = max(1, round(share * d))
        values = expected_positives(r, d, row.eps) if row.policy == "p0" else r
        bits += filter_bits(r, row.eps) + 32 * values
        total += 32 * d
    return 100 * bits / total

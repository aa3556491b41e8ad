"""The methods whose times are compared: each with the downlink that suits it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A method, its delay n, and how the global update travels.

    A sparse method's messages are relayed, as an allgather does; dense rows are a ring allreduce.
    ``claims``: whether DeepReduce's Figure 11 speaks of it.
    """

    title: str
    method: str
    downlink: str = "raw"
    temporal: int = 1
    masking: str = "auto"
    claims: bool = False


ROWS = {
    "dense": Row("no compression", "raw"),
    "topr": Row("Top-r 10 %", "deepreduce(0.1, none)", "relay", masking="off", claims=True),
    "bf-p0-qsgd": Row(
        "DeepReduce, BF-P0, QSGD",
        "deepreduce(0.1, bloom_p0, 'qsgd')",
        "relay",
        masking="off",
        claims=True,
    ),
    "golomb": Row(
        "Top-r 1 %, Golomb",
        "ef(per_tensor(topk(0.01) | float32 | golomb))",
        "relay",
        masking="off",
    ),
    "cnat": Row("natural compression", "cnat", "cnat"),
    "delay10": Row("no compression, n = 10", "raw", temporal=10),
    "sbc1": Row("SBC, n = 1, 1 %", "sbc(0.01)", "relay"),
    "sbc10": Row("SBC, n = 10, 1 %", "sbc(0.01)", "relay", temporal=10),
    "bf-p2-qsgd": Row(
        "DeepReduce, BF-P2, QSGD",
        "deepreduce(0.1, bloom_p2, 'qsgd')",
        "relay",
        masking="off",
        claims=True,
    ),
}
"""By the names of ``--only``. Momentum masking is SBC's; the paper of Top-r 10 % has none."""

SMOKE = ["dense", "topr", "bf-p2-qsgd", "cnat"]
FEW = ("dense", "topr", "bf-p0-qsgd")
"""What a larger model is run with."""

"""The Flower strategy that runs an algorithm."""

from typing import Any

from compressors import Compressor
from strategies.algorithms.base import Algorithm
from strategies.algorithms.flowers import Flowers
from strategies.server.asynchronous import Asynchronous
from strategies.server.base import ChannelStrategy
from strategies.server.compressed import Compressed
from strategies.server.delayed import DelayedDSGD
from strategies.server.sharded import ShardedStrategy

RUNS = {"rounds": DelayedDSGD, "server": Asynchronous, "shards": ShardedStrategy}
"""By an algorithm's ``clock``."""


def build(
    rule: Algorithm, uplink: Compressor, downlink: Compressor | None = None, **common: Any
) -> ChannelStrategy:
    """The Flower strategy of an algorithm.

    Args:
        rule: the algorithm.
        uplink: how clients encode their updates.
        downlink: how the server encodes the global update; raw by default.
        common: what ``ChannelStrategy`` takes, ``clients`` at least.

    Example:
        >>> from compressors import sbc
        >>> from strategies import Nesterov
        >>> build(Nesterov(), sbc(0.01), clients=4).cohort
        4
    """
    if isinstance(rule, Flowers):
        inner = rule.inner(max(1, common.get("required") or 1))
        return Compressed(inner, uplink, downlink, **common)
    return RUNS[rule.clock](uplink, downlink, rule=rule, **common)

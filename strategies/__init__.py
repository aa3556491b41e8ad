"""Flower strategies for compressed communication: Message-API apps, bytes in every message.

``DelayedDSGD`` is Algorithm 1 of the SBC paper, with the mean or a ``Majority`` of what
clients sent; ``Compressed`` gives compressed uplink and downlink to any Flower strategy,
with ``client_mod`` as its client half.
"""

from strategies import quiet  # noqa: F401, I001 - before flwr is imported

from strategies.compressed import Compressed
from strategies.delayed import Aggregate, DelayedDSGD
from strategies.exchange import Downlink, Exchange, TooFewReplies, Trip, Uplink, average
from strategies.majority import Majority, vote_code
from strategies.mod import client_mod
from strategies.nodes import answer_partition

__all__ = [
    "Aggregate",
    "Compressed",
    "DelayedDSGD",
    "Downlink",
    "Exchange",
    "Majority",
    "TooFewReplies",
    "Trip",
    "Uplink",
    "answer_partition",
    "average",
    "client_mod",
    "vote_code",
]

"""Flower strategies for compressed communication: Message-API apps, bytes in every message.

An algorithm is a value of ``strategies.algorithms`` (``Scaffold()``, ``EF21()``, ``FedBuff(10)``).
``DelayedDSGD`` runs one in rounds, the mean by default; ``Asynchronous`` runs one that does not
wait. ``Compressed`` gives compressed uplink and downlink to any Flower strategy, with
``client_mod`` as its client half.
"""

from strategies import quiet  # noqa: F401, I001 - before flwr is imported

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from strategies.algorithms import ALGORITHMS
    from strategies.algorithms.base import (
        Algorithm,
        Asked,
        Change,
        Client,
        Force,
        Job,
        Refused,
        Round,
        Trained,
    )
    from strategies.algorithms.diana import DIANA
    from strategies.algorithms.dsgd import DSGD
    from strategies.algorithms.ef21 import EF21
    from strategies.algorithms.fedasync import FedAsync
    from strategies.algorithms.fedbuff import FedBuff
    from strategies.algorithms.fedprox import FedProx
    from strategies.algorithms.fetchsgd import FetchSGD
    from strategies.algorithms.gradients import Gradients
    from strategies.algorithms.innetwork import AccumulatorOverflow, InNetwork, natural_code
    from strategies.algorithms.majority import Majority, vote_code
    from strategies.algorithms.marina import MARINA
    from strategies.algorithms.nesterov import Nesterov
    from strategies.algorithms.permk import PermK
    from strategies.algorithms.scaffold import Scaffold
    from strategies.algorithms.sharded import Sharded
    from strategies.algorithms.staleness import Staleness
    from strategies.channel.asynchronous_end import Arrival
    from strategies.channel.buffers import Buffers
    from strategies.channel.client_end import ClientEnd, Delivery
    from strategies.channel.nodes import answer_partition
    from strategies.channel.relay import Relay
    from strategies.channel.server_end import ServerEnd
    from strategies.channel.shortage import TooFewReplies
    from strategies.channel.traffic import Downlink, RoundTraffic, Uplink, average
    from strategies.client_mod import client_mod
    from strategies.server.around import WrongOrder
    from strategies.server.asynchronous import Asynchronous
    from strategies.server.base import ChannelStrategy
    from strategies.server.build import build
    from strategies.server.compressed import Compressed
    from strategies.server.delayed import DelayedDSGD
    from strategies.server.sharded import ShardedStrategy

__all__ = [
    "ALGORITHMS",
    "DIANA",
    "DSGD",
    "EF21",
    "MARINA",
    "AccumulatorOverflow",
    "Algorithm",
    "Arrival",
    "Asked",
    "Asynchronous",
    "Buffers",
    "Change",
    "ChannelStrategy",
    "Client",
    "ClientEnd",
    "Compressed",
    "DelayedDSGD",
    "Delivery",
    "Downlink",
    "FedAsync",
    "FedBuff",
    "FedProx",
    "FetchSGD",
    "Force",
    "Gradients",
    "InNetwork",
    "Job",
    "Majority",
    "Nesterov",
    "PermK",
    "Refused",
    "Round",
    "Relay",
    "RoundTraffic",
    "Scaffold",
    "ServerEnd",
    "Sharded",
    "ShardedStrategy",
    "Staleness",
    "TooFewReplies",
    "Trained",
    "Uplink",
    "WrongOrder",
    "answer_partition",
    "average",
    "build",
    "client_mod",
    "natural_code",
    "vote_code",
]

make_lazy(__name__)

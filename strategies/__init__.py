"""Flower strategies for compressed communication: Message-API apps, bytes in every message.

An algorithm is a value of ``strategies.algorithms`` or ``strategies.contrib`` (``Scaffold()``,
``EF21()``, ``FedBuff(10)``). ``DelayedDSGD`` runs one in rounds, the mean by default;
``Asynchronous`` runs one that does not wait. ``Compressed`` gives compressed uplink and downlink to
any Flower strategy, with ``client_mod`` as its client half.
"""

from strategies import quiet  # noqa: F401, I001 - before flwr is imported

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from strategies.algorithms import ALGORITHMS
    from strategies.algorithms.base import (
        Algorithm,
        Client,
        ClientUpdate,
        GradientHook,
        RoundInfo,
        TensorHook,
        TrainJob,
        TrainResult,
    )
    from strategies.algorithms.chain import chain
    from strategies.algorithms.diloco import DiLoCo
    from strategies.algorithms.dp import DP
    from strategies.algorithms.dsgd import DSGD
    from strategies.algorithms.ef21 import EF21
    from strategies.algorithms.fedasync import FedAsync
    from strategies.algorithms.fedbabu import FedBABU
    from strategies.algorithms.fedbuff import FedBuff
    from strategies.algorithms.fedper import FedPer
    from strategies.algorithms.fedprox import FedProx
    from strategies.algorithms.fedrep import FedRep
    from strategies.algorithms.gradients import Gradients
    from strategies.algorithms.nesterov import Nesterov
    from strategies.algorithms.requirements import Requirement, Setup, Unmet
    from strategies.algorithms.robust import Krum, Median, TrimmedMean
    from strategies.algorithms.scaffold import Scaffold
    from strategies.algorithms.secagg import SecAgg
    from strategies.algorithms.sharded import Sharded
    from strategies.algorithms.staleness import Staleness
    from strategies.channel.buffers import Buffers
    from strategies.channel.client_end import ClientEnd, Delivery
    from strategies.channel.nodes import answer_partition
    from strategies.channel.relay import Relay
    from strategies.channel.replies import TooFewReplies
    from strategies.channel.server_end import ServerEnd
    from strategies.channel.traffic import Arrival, Downlink, RoundTraffic, Uplink, average
    from strategies.client_mod import client_mod
    from strategies.contrib.diana import DIANA
    from strategies.contrib.fetchsgd import FetchSGD
    from strategies.contrib.innetwork import AccumulatorOverflow, InNetwork, natural_code
    from strategies.contrib.majority import Majority, vote_code
    from strategies.contrib.marina import MARINA
    from strategies.contrib.permk import PermK
    from strategies.server.asynchronous import Asynchronous
    from strategies.server.base import ChannelStrategy
    from strategies.server.build import build
    from strategies.server.compressed import Compressed
    from strategies.server.delayed import DelayedDSGD
    from strategies.server.sharded import ShardedStrategy
    from strategies.server.wrappers import WrongOrder

__all__ = [
    "ALGORITHMS", "DIANA", "DP", "DSGD", "EF21", "MARINA", "AccumulatorOverflow", "Algorithm",
    "Arrival", "Asynchronous", "Buffers", "ChannelStrategy", "Client", "ClientEnd", "ClientUpdate",
    "Compressed", "DelayedDSGD", "Delivery", "DiLoCo", "Downlink", "FedAsync", "FedBABU", "FedBuff",
    "FedPer", "FedProx", "FedRep", "FetchSGD", "GradientHook", "Gradients", "InNetwork", "Krum",
    "Majority", "Median", "Nesterov", "PermK", "Relay", "Requirement", "RoundInfo", "RoundTraffic",
    "Scaffold", "SecAgg", "ServerEnd", "Setup", "Sharded", "ShardedStrategy", "Staleness",
    "TensorHook", "TooFewReplies", "TrainJob", "TrainResult", "TrimmedMean", "Unmet", "Uplink",
    "WrongOrder", "answer_partition", "average", "build", "chain", "client_mod", "natural_code",
    "vote_code",
]  # fmt: skip

make_lazy(__name__)

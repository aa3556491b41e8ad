"""Flower strategies for compressed communication: Message-API apps, bytes in every message.

``DelayedDSGD`` is Algorithm 1 of the SBC paper, with the mean, a ``Majority`` or an
``InNetwork`` sum of what clients sent; ``RunningSum`` adds up EF21's differences and ``Shifted``
DIANA's, ``Fetched`` FetchSGD's sketches; ``Stepped`` takes gradients and has an optimizer at the
server, as has ``Estimated`` (MARINA); ``Compressed`` gives compressed uplink and downlink to any
Flower strategy, with ``client_mod`` as its client half.
"""

from strategies import quiet  # noqa: F401, I001 - before flwr is imported

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from strategies.channel.buffers import Buffers
    from strategies.channel.client_end import ClientEnd, Delivery
    from strategies.channel.nodes import answer_partition
    from strategies.channel.relay import Relay
    from strategies.channel.server_end import ServerEnd
    from strategies.channel.shortage import TooFewReplies
    from strategies.channel.traffic import Downlink, RoundTraffic, Uplink, average
    from strategies.channel.turns import Arrival
    from strategies.client_mod import client_mod
    from strategies.server.around import WrongOrder
    from strategies.server.asynchronous import Asynchronous, FedAsync, FedBuff
    from strategies.server.base import ChannelStrategy
    from strategies.server.compressed import Compressed
    from strategies.server.delayed import Aggregate, DelayedDSGD
    from strategies.server.fetched import Fetched
    from strategies.server.innetwork import AccumulatorOverflow, InNetwork, natural_code
    from strategies.server.majority import Majority, vote_code
    from strategies.server.marina import Estimated
    from strategies.server.nesterov import Nesterov
    from strategies.server.running import RunningSum
    from strategies.server.server_optimizer import Stepped
    from strategies.server.sharded import Sharded
    from strategies.server.shifted import Shifted
    from strategies.server.staleness import Staleness

__all__ = [
    "AccumulatorOverflow",
    "Aggregate",
    "Arrival",
    "Asynchronous",
    "Buffers",
    "ChannelStrategy",
    "ClientEnd",
    "Compressed",
    "DelayedDSGD",
    "Delivery",
    "Downlink",
    "Estimated",
    "FedAsync",
    "FedBuff",
    "Fetched",
    "InNetwork",
    "Majority",
    "Nesterov",
    "Relay",
    "RoundTraffic",
    "RunningSum",
    "ServerEnd",
    "Shifted",
    "Sharded",
    "Staleness",
    "Stepped",
    "TooFewReplies",
    "Uplink",
    "WrongOrder",
    "answer_partition",
    "average",
    "client_mod",
    "natural_code",
    "vote_code",
]

make_lazy(__name__)

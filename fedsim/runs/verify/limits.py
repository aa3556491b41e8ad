"""The limits of a replay of a run's stored messages, in words."""

from collections.abc import Iterator

from fedsim.runs.verify.clientreplies import Replies
from fedsim.runs.verify.rerun import elsewhere
from fedsim.runs.verify.tables import TOLERANCE
from fedsim.settings.config import RunConfig

LACKS = "an earlier version kept the payloads of used replies alone"

CODING = "simulated seconds are not compared: they hold the server's measured coding"
"""The remark on a network with ``coding=measured``."""


def replay_obstacle(replies: Replies) -> str:
    """Why a run cannot be replayed; empty where it can be.

    ``replies``: what is known of its clients'.
    """
    config, network = replies.config, replies.config.plan.network
    if replies.complete:
        return ""
    if config.controller is not None:
        return f"{LACKS}, and the controller was told of more"
    if config.plan.algorithm.clock == "shards":
        return f"{LACKS}, and parts of other replies move the model, too"
    if network is not None and network.framing:
        return f"{LACKS}, and the clock counts whole messages (framing=on)"
    return ""


def left_out(replies: Replies, own_models: bool) -> Iterator[str]:
    """What a replay does not compare, except measured seconds, and why; as ``replay_obstacle``.

    ``own_models``: whether clients have models of their own, by which a run is scored.
    """
    if not replies.complete:
        yield f"rows are not compared with the replay: {LACKS}"
        return
    if clocked_coding(replies.config):
        yield CODING
    if own_models:
        yield "scores are not compared with the replay: what clients keep is in no message"
    elif where := scored_elsewhere(replies):
        yield f"scores are compared with the replay within {TOLERANCE:.0%}: {where}"


def clocked_coding(config: RunConfig) -> bool:
    """Whether the clock counts the seconds that coding takes on this machine."""
    network = config.plan.network
    return network is not None and network.coding > 0


def scored_elsewhere(replies: Replies) -> str:
    """In what the machine or device that scored the run's models is another; empty: in nothing."""
    device = replies.config.machine.device
    devices = f"device {device} there, cpu here" if device != "cpu" else ""
    return ", ".join(filter(None, [elsewhere(replies.recorded.folder), devices]))

"""Asynchronous strategies: how each is built, and what each goes with.

The order in which updates come follows from times, so that such a run needs a network whose times
do not depend on the machine.
"""

from typing import TYPE_CHECKING

import strategies
from fedsim.errors import UsageError
from fedsim.settings import gradients

if TYPE_CHECKING:
    from compressors import Compressor
    from fedsim.settings.combination import Combination, Parts
    from strategies import ChannelStrategy

MIXING = 0.6
"""The share of a fresh update of ``fedasync``: what most of Xie et al.'s experiments have."""

BUFFER = 10
"""Updates per step of ``fedbuff``: what Nguyen et al. 2022 propose for every task (section 5)."""


def fedbuff(parts: "Parts") -> "ChannelStrategy":
    """The buffered server; a buffer holds no more updates than clients are at work."""
    size = parts.buffer_size or min(BUFFER, parts.common["cohort"])
    rate = 1.0 if parts.server_lr is None else parts.server_lr
    return strategies.FedBuff(
        parts.uplink, parts.downlink, size=size, server_lr=rate, staleness=weight(parts.staleness),
        **parts.common,
    )  # fmt: skip


def fedasync(parts: "Parts") -> "ChannelStrategy":
    """The staleness-weighted server."""
    rate = MIXING if parts.server_lr is None else parts.server_lr
    return strategies.FedAsync(
        parts.uplink, parts.downlink, server_lr=rate, staleness=weight(parts.staleness),
        **parts.common,
    )  # fmt: skip


def sharded(parts: "Parts") -> "ChannelStrategy":
    """A server at every worker."""
    return strategies.Sharded(
        parts.uplink, parts.downlink, optimizer=parts.optimizer, factor=parts.factor, **parts.common
    )


def weight(text: str | None) -> "strategies.Staleness":
    """The weight by staleness that ``--staleness`` names.

    Raises ``UsageError`` where it names none.
    """
    try:
        return strategies.Staleness() if text is None else strategies.Staleness(text)
    except ValueError as error:
        raise UsageError(f"--staleness is {error}") from error


def check_server(asked: "Combination") -> None:
    """What an asynchronous server goes with."""
    _timed(asked)
    weight(asked.staleness)


def check_mixing(asked: "Combination") -> None:
    """As ``check_server``; a share lies in (0, 1]."""
    check_server(asked)
    if asked.server_lr is not None and asked.server_lr > 1:
        raise UsageError(
            f"--server-lr is {asked.server_lr}: with strategy fedasync it is the share of a "
            "client's model in the mean of both, and lies in (0, 1]"
        )


def check_shards(asked: "Combination") -> None:
    """What a server at every worker goes with."""
    gradients.check(asked, "sharded")
    _timed(asked)
    if asked.cohort != asked.clients:
        raise UsageError(
            f"--cohort is {asked.cohort} of {asked.clients} clients: with strategy sharded every "
            "worker holds a part of the model, so that all take part"
        )
    network = asked.network
    shared = [] if network is None else [network.server_up, network.server_down]
    if any(rate != float("inf") for rate in shared):
        raise UsageError(
            "--network has server_up or server_down: with strategy sharded there is no server "
            "beside the workers, whose own links carry both"
        )


def _timed(asked: "Combination") -> None:
    if asked.network is None or asked.network.depends:
        given = "not given" if asked.network is None else repr(asked.network.name)
        raise UsageError(
            f"--network is {given}: in an asynchronous strategy the order of updates follows from "
            "the clients' times, which must be the same in every run: give times to compute, such "
            "as --network '4g, compute=20ms', and no coding"
        )


def own_downlink(method: str, uplink: "Compressor") -> "Compressor":
    """Pulls are compressed as pushes are (Aji & Heafield 2017, section 4)."""
    return uplink

"""Rounds in which too few clients came back, and why."""

from strategies.channel.traffic import RoundTraffic

ABSENT = "no node is connected"
"""Why a client of the cohort failed that nothing could be sent to."""

AT_WORK = "still at work on an earlier round"
"""Why a client failed that was not asked: its reply to an earlier message has not come yet."""

NO_REPLY = "no reply within the timeout"
"""Why a client failed that nothing came from while the server waited."""


class TooFewReplies(RuntimeError):
    """Fewer clients than required came back with a usable update, with the reasons."""


def check_enough(traffic: RoundTraffic, required: int | None) -> None:
    """Books clients that did not reply; ``TooFewReplies`` where fewer than ``required`` did.

    ``required``: None for the whole cohort.
    """
    for client in traffic.downlinks:
        if client not in traffic.uplinks:
            traffic.failures.setdefault(client, NO_REPLY)
    cohort, used = len({*traffic.downlinks, *traffic.failures}), len(traffic.uplinks)
    required = cohort if required is None else required
    if used < required:
        reasons = [f"; client {c}: {reason}" for c, reason in sorted(traffic.failures.items())]
        raise TooFewReplies(
            f"round {traffic.round}: {used} of {cohort} clients replied and {required} are required"
            + "".join(reasons[:1])  # none where fewer were asked than are required
        )

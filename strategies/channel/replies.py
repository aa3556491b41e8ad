"""Clients' replies: an update, a request for the model, or an error; and rounds with too few."""

import math
import re
from reprlib import repr

from flwr.app import Message, MetricRecord, RecordDict

from compressors import Compressor, Tensors
from compressors.grammar import printable
from compressors.message import read_message
from strategies.channel.acknowledge import read_outcome
from strategies.channel.app_checks import cure
from strategies.channel.payload import (
    METRICS,
    OUTCOME,
    ROUND,
    SAMPLES,
    WANTS,
    Settings,
    payload_in,
    read_settings,
)
from strategies.channel.traffic import RoundTraffic, Uplink

_SECONDS = ("decode-seconds", "train-seconds", "encode-seconds")
_MOST = 2**53  # the greatest whole number up to which float64 holds them all


def reply_settings(reply: Message) -> Settings:
    """The settings of a reply, none of an error."""
    return read_settings(reply.content) if reply.has_content() else {}


def wants_model(reply: Message) -> bool:
    """Whether a client asks for the whole model: it was sent an update of one it does not hold."""
    return bool(reply_settings(reply).get(WANTS) == "model")


def answered_round(reply: Message) -> int | None:
    """The round that asked for a reply; None where the reply does not say so."""
    round_number = reply_settings(reply).get(ROUND)
    return round_number if isinstance(round_number, int) else None


def metrics_of(content: RecordDict) -> dict[str, float]:
    """The numbers that a client sends with its update, after a check.

    The number of samples is whole, from 1 to 2**53; seconds are from 0 to 2**53; the loss is
    finite. Other numbers of an app's client are left for its server to judge. Lists are left out.

    Raises ``ValueError``, which names the number, its value and what is allowed.

    Example:
        >>> metrics_of(RecordDict({METRICS: MetricRecord({SAMPLES: 359, "train-loss": 0.5})}))
        {'num-examples': 359.0, 'train-loss': 0.5}
    """
    record = content.get(METRICS)
    metrics = dict(record.items()) if isinstance(record, MetricRecord) else {}
    for name in (SAMPLES, "train-loss", *_SECONDS):
        if name not in metrics:
            continue
        value = metrics[name]
        number = value if isinstance(value, int | float) else math.nan
        if name == SAMPLES and not (1 <= number <= _MOST and number == int(number)):
            raise ValueError(f"{name} is {repr(value)}: it is a whole number from 1 to 2**53")
        if name in _SECONDS and not 0 <= number <= _MOST:
            raise ValueError(f"{name} is {repr(value)}: it is a number from 0 to 2**53")
        if name == "train-loss" and not math.isfinite(number):
            raise ValueError(f"{name} is {repr(value)}: it is a finite number")
    return {k: float(v) for k, v in metrics.items() if isinstance(v, int | float)}


def uplink_of(
    reply: Message,
    settings: Settings,
    round_number: int,
    uplink: Compressor,
    template: Tensors,
    max_norm: float | None = None,
) -> Uplink:
    """The decoded update of a reply, after a check.

    The number of entries that travelled is counted in the message; the client's own is not read.
    The reply is of a client, or of a program between that answers in its place; ``round_number``:
    the round that it must answer, since the server has already decided about others.

    Raises ``ValueError`` where the reply is an error, is of another round, lacks what it should
    hold, says a number that cannot be, or holds a longer update than ``max_norm``; and
    ``PayloadError`` where a payload is damaged.
    """
    if reply.has_error():
        reason = error_text(reply)
        raise ValueError(reason + cure(reply.error, reason))
    answers = settings.get(ROUND, round_number)
    if answers != round_number:
        raise ValueError(f"the reply is of round {repr(answers)} and came in round {round_number}")
    content = reply.content
    payload = payload_in(content, settings)
    message = read_message(uplink, payload, template)
    outcome, returned, lost = read_outcome(settings)
    numbers = metrics_of(content) | {"sent": float(sum(message.sent.values()))}
    up = Uplink(
        payload,
        message.spans,
        message.update,
        numbers,
        sent={name: count for name, count in message.sent.items() if name in template},
        side_payloads={OUTCOME: outcome} if outcome else {},
        returned=returned,
        lost=lost,
    )
    if max_norm is not None and not up.norm <= max_norm:
        raise ValueError(f"the update has norm {up.norm:.3g}: at most {max_norm:g} is allowed")
    return up


def error_text(reply: Message) -> str:
    """The text of an error reply, in one line.

    On Ray a whole traceback comes with it, the error last; of a deployed client its class and text.
    """
    last = (reply.error.reason or "the client raised").strip().splitlines()[-1]
    last = printable(last.rpartition("Message: ")[2].removesuffix("'>"))
    return re.sub(r"^<class '(?:builtins\.)?([\w.]+)'>:<'", r"\1: ", last).removesuffix(": ")


# Why a client of a cohort failed.
ABSENT = "no node is connected"  # so that nothing could be sent to it
AT_WORK = "still at work on an earlier round"  # its reply to an earlier message has not come yet
NO_REPLY = "no reply within the timeout"  # nothing came while the server waited


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

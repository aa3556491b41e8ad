"""What a client's reply says: an update, a wish for the model, or why there is none."""

from collections.abc import Mapping
from dataclasses import replace

from flwr.app import Message, MetricRecord
from torch import Tensor

from compressors import Compressor, receive
from strategies.channel.acknowledge import LOST, RETURNED
from strategies.channel.buffers import PAYLOAD, Buffers
from strategies.channel.orders import REPORT, from_report
from strategies.channel.payload import KEY, METRICS, ROUND, SENT, WANTS, get, hint
from strategies.channel.traffic import Uplink


def wants_model(reply: Message) -> bool:
    """Whether a client asks for the whole model: it was sent an update of one it does not hold."""
    if not reply.has_content():
        return False
    beside = reply.content.config_records.get(KEY)
    return beside is not None and beside.get(WANTS) == "model"


def carries_buffers(reply: Message) -> bool:
    """Whether a reply holds its client's buffers."""
    beside = reply.content.config_records.get(KEY) if reply.has_content() else None
    return beside is not None and PAYLOAD in beside


def asked_in(reply: Message) -> int | None:
    """The round that asked for a reply; None where the reply does not say so."""
    beside = reply.content.config_records.get(KEY) if reply.has_content() else None
    asked = beside.get(ROUND) if beside is not None else None
    return asked if isinstance(asked, int) else None


def check_round(reply: Message, round_number: int) -> None:
    """Raises ``ValueError`` for an update of another round: its client was told its fate."""
    answers = asked_in(reply)
    if answers is not None and answers != round_number:
        raise ValueError(f"the reply is of round {answers!r} and came in round {round_number}")


def uplink_of(
    reply: Message, uplink: Compressor, like: Mapping[str, Tensor], buffers: Buffers | None,
    wanted: tuple[str, ...] = (),
) -> Uplink:  # fmt: skip
    """The decoded update of a reply, with what stands beside it.

    Args:
        reply: of a client, or of what lies between in its place.
        uplink: how clients encode their updates.
        like: the model's parameters.
        buffers: the server's, where the reply is to hold the client's; None: it is not.
        wanted: the names of the numbers that the client was asked to report.

    Raises ``ValueError`` where the reply is an error or lacks what it should hold, and
    ``PayloadError`` where a payload is damaged.
    """
    if reply.has_error():
        raise ValueError(_reason(reply.error.reason) + hint(reply.error.code))
    payload, beside = get(reply.content)
    message = receive(uplink, payload, like)
    statistics = buffers.read(beside) if buffers else ()
    metrics = reply.content.metric_records.get(METRICS) or MetricRecord()
    numbers = {k: float(v) for k, v in metrics.items() if isinstance(v, int | float)}
    returned, lost = bool(beside.get(RETURNED)), beside.get(LOST, 0)
    if not isinstance(lost, int) or not 0 <= lost < 2**53:
        raise ValueError(f"{LOST} is {lost!r}: it is a number of updates")
    sent = _counts(metrics, like)
    report = from_report(beside.get(REPORT), wanted) if wanted else {}
    up = Uplink(payload, message.spans, message.update, numbers, sent, returned, *statistics)
    return replace(up, report=report, lost=lost)


def _counts(metrics: MetricRecord, like: Mapping[str, Tensor]) -> dict[str, int]:
    """How many entries of each tensor travelled; empty where the client does not say."""
    counts = metrics.get(SENT)
    listed = counts if isinstance(counts, list) and len(counts) == len(like) else []
    return {name: int(count) for name, count in zip(like, listed, strict=False)}


def reason(reply: Message) -> str:
    """What an error reply says, in one line."""
    return _reason(reply.error.reason)


def _reason(text: str | None) -> str:
    """One line of what Flower says: on Ray a whole traceback comes with it, the error last."""
    last = (text or "the client raised").strip().splitlines()[-1]
    return last.rpartition("Message: ")[2].removesuffix("'>")

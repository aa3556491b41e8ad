"""Buffers at the server's end: what is sent, what is asked for, what is refused."""

from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from torch import Tensor

from compressors import Raw, compress
from strategies import Buffers, ServerEnd, TooFewReplies
from strategies.channel.buffers import to_payload
from strategies.channel.payload import BUFFERS, KEY, put
from tests.support.linear import tensor

UPDATE = compress(Raw(), tensor(1.0, 1.0))[0].payload


def held(*values: float) -> dict[str, Tensor]:
    return {"mean": torch.tensor(values)}


def make_channel(**more: Any) -> ServerEnd:
    return ServerEnd(Raw(), Raw(), tensor(0.0, 0.0), 0, [Buffers(held(1.0, 2.0), **more)])


def values_of(channel: ServerEnd) -> list[float]:
    (buffers,) = channel.sides
    assert isinstance(buffers, Buffers)
    return buffers.values["mean"].tolist()


def reply(samples: int = 1, **beside: Any) -> Message:
    content = RecordDict({"metrics": MetricRecord({"num-examples": samples})})
    put(content, UPDATE, **beside)
    return Message(content, reply_to=Message(RecordDict(), dst_node_id=1, message_type="train"))


def sends(*values: float, samples: int = 1) -> Message:
    return reply(samples, **{BUFFERS: to_payload(held(*values))})


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ({}, "lacks the buffers"),
        ({BUFFERS: "text"}, "lacks the buffers"),
        ({BUFFERS: to_payload(held(1.0, 2.0))[:-1]}, "ends early"),
        ({BUFFERS: to_payload(held(1.0, 2.0, 3.0))}, ""),
    ],
    ids=["none", "no bytes", "cut short", "of another model"],
)
def test_a_reply_without_them_is_a_failure(beside: dict[str, Any], why: str) -> None:
    channel = make_channel()
    channel.begin(1, [0, 1])
    channel.take(0, reply(**beside))
    channel.take(1, sends(5.0, 9.0))
    assert list(channel.traffic.failures) == [0] and why in channel.traffic.failures[0]
    with pytest.raises(TooFewReplies):
        channel.finish(2)
    channel.finish(1)
    assert values_of(channel) == [5.0, 9.0]


def test_a_model_without_them_sends_what_it_always_sent() -> None:
    channel = ServerEnd(Raw(), Raw(), tensor(0.0, 0.0))
    channel.begin(1, [0])
    assert set(channel.content(0, ConfigRecord({}))[KEY]) == {
        "payload",
        "kind",
        "round",
        "version",
        "client",
        "channel",
    }

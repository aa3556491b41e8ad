"""The server's end of a compressed channel, message by message."""

import json

import pytest
import torch
from flwr.app import ConfigRecord, Error, Message, MetricRecord, RecordDict

from compressors import Raw, compress, decompress, gradient_dropping
from strategies import ServerEnd, TooFewReplies, Uplink, average
from strategies.channel.acknowledge import Ack, write_outcome
from strategies.channel.payload import KEY, put
from tests.support.linear import tensor, vector

HALF = gradient_dropping(0.5)
ZERO = tensor(0.0, 0.0)


def asked() -> Message:
    return Message(RecordDict(), dst_node_id=1, message_type="train")


def reply(payload: bytes, **metrics: float) -> Message:
    content = RecordDict({"metrics": MetricRecord(metrics)})
    put(content, payload)
    return Message(content, reply_to=asked())


def sends(*values: float) -> Message:
    return reply(compress(HALF, tensor(*values))[0].payload)


def test_only_who_holds_the_base_is_sent_the_update() -> None:
    channel = ServerEnd(HALF, HALF, ZERO)
    channel.begin(1, [0, 1, 2])
    channel.take(0, sends(4.0, 1.0))
    channel.take(1, Message(Error(code=2, reason="no power"), reply_to=asked()))
    channel.finish(1)  # client 2 said nothing
    assert channel.traffic.failures == {1: "no power", 2: "no reply within the timeout"}
    channel.advance(tensor(4.0, 1.0))
    downlinks = channel.begin(2, [0, 1, 2, 3]).downlinks
    assert [d.kind for d in downlinks.values()] == ["update", "model", "model", "model"]
    assert all(d.charged for d in downlinks.values())
    assert vector(decompress(HALF, downlinks[0].payload, ZERO)) == [4.0, 0.0]
    assert vector(decompress(Raw(), downlinks[1].payload, ZERO)) == [4.0, 0.0]


def test_a_base_of_two_rounds_ago_is_too_old() -> None:
    channel = ServerEnd(HALF, HALF, ZERO)
    for number, cohort in ((1, [0, 1]), (2, [0]), (3, [0, 1])):
        kinds = {c: d.kind for c, d in channel.begin(number, cohort).downlinks.items()}
        for client in cohort:
            channel.take(client, sends(1.0, 0.0))
        channel.finish(len(cohort))
        channel.advance(tensor(1.0, 0.0))
    assert kinds == {0: "update", 1: "model"}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "ends early"),
        (compress(Raw(), ZERO)[0].payload, "not made by"),
        (compress(HALF, tensor(1.0, 2.0))[0].payload[:-1], ""),
        (compress(HALF, tensor(1.0, 2.0))[0].payload + b"x", ""),
    ],
)
def test_a_payload_that_cannot_be_read_is_a_failure(payload: bytes, reason: str) -> None:
    channel = ServerEnd(HALF, Raw(), ZERO)
    channel.begin(1, [5])
    channel.take(5, reply(payload))
    with pytest.raises(TooFewReplies, match=r"round 1: 0 of 1 .* 1 are required; client 5: ") as e:
        channel.finish(1)
    assert reason in str(e.value)
    assert channel.base == {}  # it may or may not have kept what it was sent


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("MemoryError: no room", "MemoryError: no room"),
        ("<class 'X'>:<'Traceback\n  File \"x\"\nException X. Message: no room'>", "no room"),
        ("", "the client raised"),
        ("no \x1b[2Jroom", "no \\x1b[2Jroom"),
    ],
)
def test_a_reason_is_one_line(said: str, kept: str) -> None:
    channel = ServerEnd(HALF, Raw(), ZERO)
    channel.begin(1, [0])
    channel.take(0, Message(Error(code=2, reason=said), reply_to=asked()))
    assert channel.traffic.failures == {0: kept}


def test_more_replies_required_than_asked_for() -> None:
    channel = ServerEnd(HALF, Raw(), ZERO)
    channel.begin(1, [0])
    channel.take(0, sends(1.0, 0.0))
    with pytest.raises(TooFewReplies, match="1 of 1 clients replied and 2 are required"):
        channel.finish(2)


def test_uplinks_come_in_client_order_with_their_metrics() -> None:
    channel = ServerEnd(HALF, Raw(), ZERO)
    channel.begin(1, [0, 1, 2])
    for client in (2, 0, 1):
        payload = compress(HALF, tensor(float(client), 0.0))[0].payload
        channel.take(client, reply(payload, **{"num-examples": 10.0 * client + 1, "sent": 1}))
    uplinks = channel.finish(3)
    assert list(uplinks) == [0, 1, 2]
    assert [up.samples for up in uplinks.values()] == [1.0, 11.0, 21.0]
    assert sum(uplinks[1].spans.values()) == 8 * len(uplinks[1].payload)


def uplink(samples: float, *values: float) -> Uplink:
    spans = dict.fromkeys(("header", "positions", "values", "side"), 0)
    return Uplink(b"", spans, tensor(*values), {"num-examples": samples})


def test_the_mean_is_summed_in_client_order() -> None:
    values = (1e8, 1.0, -1e8, 1.0)
    order = [uplink(1, v, 0.0) for v in values]
    mean = average(dict(enumerate(order)), "uniform")
    expected = torch.zeros(1)
    for v in values:
        expected += torch.tensor([v]) / 4
    assert mean["w"][0] == expected[0]
    other = average(dict(enumerate([order[0], order[2], order[1], order[3]])), "uniform")
    assert other["w"][0] != expected[0]  # so the order can be seen at all


def test_lost_updates_that_the_server_has_heard_of_are_not_counted_again() -> None:
    """A client says 1, 1 and 3 in its replies; 2 after it has begun anew, without its memory."""
    channel, found = ServerEnd(Raw(), Raw(), ZERO), []
    for number, lost in enumerate((1, 1, 3, 2), start=1):
        channel.begin(number, [0])
        content = RecordDict()
        put(content, compress(Raw(), ZERO)[0].payload, **write_outcome(Ack({}, lost=lost)))
        channel.take(0, Message(content, reply_to=asked()))
        found += [up.lost for up in channel.finish(1).values()]
        channel.advance(ZERO)
    assert found == [1, 0, 2, 2]


def test_a_request_in_a_checkpoint_of_version_0_1_0_is_called_asked() -> None:
    channel, again = (ServerEnd(HALF, Raw(), ZERO) for _ in range(2))
    channel.ask(3, ConfigRecord())
    tensors, values = channel.state()
    values["asked"] = json.loads(json.dumps(values["asked"]).replace('"Request"', '"Asked"'))
    assert "Asked" in json.dumps(values)
    again.restore(tensors, values)
    assert again.in_flight[3].traffic.downlinks == channel.in_flight[3].traffic.downlinks


def test_settings_travel_beside_the_payload() -> None:
    channel = ServerEnd(HALF, Raw(), ZERO)
    channel.begin(3, [0])
    content = channel.content(0, ConfigRecord({"iterations": 7, "list": [1, 2]}))
    sent = content[KEY]
    assert sent["iterations"] == 7 and sent["round"] == 3 and sent["kind"] == "model"
    assert "list" not in sent

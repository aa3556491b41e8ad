"""Relayed messages: everyone is sent what the others sent, and makes the server's model of that."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict

from compressors import Compressor, PayloadError, Raw, Tensors, parse
from strategies import (
    DSGD,
    ClientEnd,
    Compressed,
    DelayedDSGD,
    FedBuff,
    Majority,
    Nesterov,
    Relay,
    Scaffold,
    build,
)
from strategies.channel import downlinks
from strategies.channel.client_end import NoBase, one_by_one
from strategies.channel.downlinks import Relayed
from strategies.channel.payload import METRICS, SAMPLES
from strategies.channel.relay import Means, join, split
from strategies.channel.server_end import ServerEnd
from tests.support.linear import Pull, grid_of, modded_app, record

LIKE = {"w": torch.zeros(3)}
SPARSE = parse("ef(topk(0.34) | float32 | golomb)")


class Rounds:
    """A server and its clients, which decode what they are sent and compare it with its model."""

    def __init__(
        self,
        uplink: Compressor,
        by_samples: bool = False,
        template: Tensors = LIKE,
        catch_up: bool = False,
    ) -> None:
        self.uplink = uplink
        self.server = ServerEnd(uplink, Relay(), template, catch_up=catch_up)
        policy = self.server.policy
        assert isinstance(policy, Relayed)
        policy.by_samples, self.policy, self.by_samples = by_samples, policy, by_samples
        self.end = ClientEnd(uplink, Relay(), template)
        self.memory: dict[int, dict[str, torch.Tensor]] = {}

    def play(
        self,
        number: int,
        updates: dict[int, list[float]],
        silent: Sequence[int] = (),
        samples: Sequence[int] = (1, 1, 1, 1),
    ) -> dict[int, Any]:
        """A round; ``silent`` clients train, and their replies never come. What each was sent."""
        self.server.begin(number, list(updates))
        asked = dict(self.server.traffic.downlinks)
        replies = {}
        for client, values in updates.items():
            content = self.server.content(client, ConfigRecord())
            delivery = self.end.decode(content, self.memory.get(client))
            assert torch.equal(delivery.weights["w"], self.server.weights["w"]), (number, client)
            packet, memory = one_by_one(
                self.end.encode(client, {"w": torch.tensor(values)}, delivery)
            )
            self.memory[client] = memory
            told = RecordDict({METRICS: MetricRecord({SAMPLES: samples[client]})})
            self.end.reply(told, packet, delivery, {})
            asking = Message(RecordDict(), dst_node_id=1, message_type="train")
            replies[client] = Message(told, reply_to=asking)
        for client in updates:
            if client not in silent:
                self.server.take(client, replies[client])
        uplinks = self.server.finish(0)
        if uplinks:
            shares = [up.samples if self.by_samples else 1.0 for up in uplinks.values()]
            total, mean = sum(shares), torch.zeros_like(self.server.weights["w"])
            for up, share in zip(uplinks.values(), shares, strict=True):
                mean.add_(up.update["w"], alpha=share / total)
            self.server.advance({"w": mean})
        return asked


def test_two_rounds_by_hand() -> None:
    """Clients 0, 1, 2 send (3, 0, 0), (0, 6, 0), (0, 0, 9): the model is (1, 2, 3).

    A raw message of three floats has 3 bytes of header and 12 of values. Each is sent two of them
    behind one byte of length, and one byte with its place: 33 bytes.
    """
    rounds = Rounds(Raw())
    free = rounds.play(1, {0: [3.0, 0, 0], 1: [0, 6.0, 0], 2: [0, 0, 9.0]})
    assert {(down.kind, down.charged) for down in free.values()} == {("model", False)}
    assert rounds.server.weights["w"].tolist() == [1.0, 2.0, 3.0]
    ups = [up.payload for up in rounds.server.traffic.uplinks.values()]
    assert [len(up) for up in ups] == [15, 15, 15]
    sent = rounds.play(2, {client: [1.0, 1.0, 1.0] for client in range(3)})
    assert sent[0].payload == bytes([2, 15]) + ups[1] + bytes([15]) + ups[2]
    assert sent[1].payload == bytes([4, 15]) + ups[0] + bytes([15]) + ups[2]
    assert sent[2].payload == bytes([6, 15]) + ups[0] + bytes([15]) + ups[1]
    for down in sent.values():
        assert (down.kind, down.charged) == ("relay", True)
        assert sum(down.spans.values()) == 8 * len(down.payload) == 8 * 33
        assert down.spans["values"] == 2 * 96
    assert rounds.server.weights["w"].tolist() == [2.0, 3.0, 4.0]


def test_by_samples_the_numbers_travel() -> None:
    """1 and 299 samples: (1 * 300 + 299 * 0) / 300 = 1. A byte of one's own, two of the other's."""
    rounds = Rounds(Raw(), by_samples=True)
    counts = (1, 299, 1, 1)
    rounds.play(1, {0: [300.0, 0, 0], 1: [0, 0, 300.0]}, samples=counts)
    ups = [up.payload for up in rounds.server.traffic.uplinks.values()]
    sent = rounds.play(2, {0: [0.0, 0, 0], 1: [0.0, 0, 0]}, samples=counts)
    assert sent[0].payload == bytes([3, 1, 0xAB, 0x02, 15]) + ups[1]
    assert sent[1].payload == bytes([5, 0xAB, 0x02, 1, 15]) + ups[0]
    assert rounds.server.weights["w"].tolist() == [1.0, 0.0, 299.0]


def test_who_missed_the_round_or_is_new_is_sent_the_model() -> None:
    rounds = Rounds(SPARSE)
    one = [1.0, 2.0, 3.0]
    rounds.play(1, {0: one, 1: one})
    assert rounds.play(2, {0: one, 2: one})[2].kind == "model"  # new, and charged
    assert rounds.server.traffic.downlinks[2].charged
    sent = rounds.play(3, {0: one, 1: one, 2: one})
    assert {c: down.kind for c, down in sent.items()} == {0: "relay", 1: "model", 2: "relay"}


def test_one_whose_update_was_not_used_holds_an_older_model_or_is_sent_all() -> None:
    """In round 2 client 1's reply is lost: it is sent the model. In round 3 nobody's comes: all
    have made the model already, and are sent the same messages again."""
    rounds, one = Rounds(SPARSE), [1.0, 2.0, 3.0]
    rounds.play(1, {0: one, 1: one, 2: one})
    rounds.play(2, {0: one, 1: one, 2: one}, silent=[1])
    sent = rounds.play(3, {0: one, 1: one, 2: one}, silent=[0, 1, 2])
    assert {c: down.kind for c, down in sent.items()} == {0: "relay", 1: "model", 2: "relay"}
    again = rounds.play(4, {0: one, 1: one, 2: one})
    assert again[0].payload == sent[0].payload and again[1].kind == "model"
    assert rounds.play(5, {0: one, 1: one, 2: one})[1].kind == "relay"


def spike(place: int, of: int = 300) -> list[float]:
    return [float(i == place) for i in range(of)]


def test_with_catch_up_who_missed_rounds_is_sent_the_messages_of_each() -> None:
    """Client 0 answers in round 1 and is asked again in round 4. Of round 1 it lacks 1's message,
    of rounds 2 and 3 those of 1 and 2; every part stands behind its length.

    Client 3, new in round 4, is sent the model; in round 5 all have it.
    """
    few = parse("topk(0.01) | float32 | golomb")
    rounds = Rounds(few, template={"w": torch.zeros(300)}, catch_up=True)
    ups = []
    for number, asked in enumerate([(0, 1), (1, 2), (1, 2)], 1):
        rounds.play(number, {client: spike(10 * number + client) for client in asked})
        ups.append([up.payload for up in rounds.server.traffic.uplinks.values()])
    sent = rounds.play(4, {client: spike(client) for client in range(4)})
    parts = join(ups[0], 0), join(ups[1], None), join(ups[2], None)
    assert sent[0].payload == downlinks.join_updates(parts) and sent[0].kind == "relay"
    assert sent[1].payload == join(ups[2], 0) and sent[2].payload == join(ups[2], 1)
    assert sent[3].kind == "model"
    assert sum(sent[0].spans.values()) == 8 * len(sent[0].payload)
    assert sent[0].spans["values"] == 5 * 32  # five messages of one entry
    last = rounds.play(5, {client: spike(client) for client in range(4)})
    assert {down.kind for down in last.values()} == {"relay"}


def test_what_is_longer_than_the_model_is_not_sent_in_its_place() -> None:
    """A model of 12 bytes: the messages of two rounds, each of 8, are longer."""
    rounds, one = Rounds(SPARSE, catch_up=True), [1.0, 2.0, 3.0]
    rounds.play(1, {0: one, 1: one})
    rounds.play(2, {1: one})
    assert rounds.play(3, {0: one, 1: one})[0].kind == "model"
    assert len(rounds.policy._rounds) == 1  # and nothing more is kept


def test_who_answered_and_was_not_heard_makes_the_rounds_that_it_lacks() -> None:
    """Client 0 answers in rounds 1 and 3, and its second answer is lost. The server believes that
    it holds the first model; it holds that of round 2, and makes the one round that it lacks."""
    rounds = Rounds(SPARSE, template={"w": torch.zeros(300)}, catch_up=True)
    rounds.play(1, {0: spike(1), 1: spike(2)})
    rounds.play(2, {1: spike(3)})
    rounds.play(3, {0: spike(4), 1: spike(5)}, silent=[0])
    sent = rounds.play(4, {0: spike(6), 1: spike(7)})
    assert sent[0].kind == "relay" and len(downlinks.split_updates(sent[0].payload, 3)) == 3


def test_a_client_that_is_in_two_of_the_rounds_is_sent_the_model() -> None:
    """It keeps the last of its messages alone."""
    rounds = Rounds(SPARSE, template={"w": torch.zeros(300)}, catch_up=True)
    rounds.play(1, {0: spike(1), 1: spike(2)})
    rounds.play(2, {0: spike(3), 1: spike(4)})
    rounds.server.base[0] = 0  # as of one whose late messages were used in both
    rounds.server.begin(3, [0, 1])
    assert {c: down.kind for c, down in rounds.server.traffic.downlinks.items()} == {
        0: "model",
        1: "relay",
    }


def test_one_that_was_refused_is_sent_all_messages() -> None:
    """It holds the model of before, and what it sent is not among what made the next."""
    rounds, one = Rounds(Raw()), [1.0, 2.0, 3.0]
    rounds.play(1, {0: one, 1: one, 2: one})
    server = rounds.server
    rounds.policy._rounds[-1].pop(1)
    server.weights = {"w": torch.tensor(one)}  # of two equal updates
    server.begin(2, [0, 1])
    place, all_but_own = server.traffic.downlinks[1].payload[0], server.traffic.downlinks[0].payload
    assert place == 0 and len(server.traffic.downlinks[1].payload) > len(all_but_own)
    delivery = rounds.end.decode(server.content(1, ConfigRecord()), rounds.memory[1])
    assert delivery.weights["w"].tolist() == one


def test_a_client_without_its_message_asks_for_the_model() -> None:
    """And one that was restarted; the server grants it in the round."""
    rounds, one = Rounds(Raw()), [1.0, 2.0, 3.0]
    rounds.play(1, {0: one, 1: one})
    rounds.server.begin(2, [0, 1])
    content = rounds.server.content(0, ConfigRecord())
    kept = {n: x for n, x in rounds.memory[0].items() if n != "pending/payload"}
    for memory in (None, kept):
        with pytest.raises(NoBase):
            rounds.end.decode(content, memory)


def test_messages_that_are_cut_or_too_few_are_refused() -> None:
    whole = join([b"ab", b"c" * 200], 0)
    assert split(whole, b"ab") == ([b"ab", b"c" * 200], [])
    by_samples = join([b"ab", b"c"], None, [7, 300])
    assert split(by_samples, b"") == ([b"ab", b"c"], [7, 300])
    for damaged in (b"", whole[:-1], whole[:2], b"\x00", bytes([9, 1]), b"\xff" * 20, b"\x08"):
        with pytest.raises(PayloadError):
            split(damaged, b"")
    with pytest.raises(PayloadError, match="no samples"):
        Means().of(join([b"ab"], None, [0]), b"", Raw(), LIKE)


def test_what_cannot_be_relayed_is_refused_where_it_is_built() -> None:
    from flwr.serverapp.strategy import FedAvg

    for rule in (Nesterov(), FedBuff(1), Majority(), DSGD("nova"), Scaffold()):
        with pytest.raises(ValueError, match="downlink is relay"):
            build(rule, Raw(), Relay(), clients=2)
    with pytest.raises(ValueError, match="downlink is relay"):
        Compressed(FedAvg(), Raw(), Relay(), clients=2)


def test_flowers_own_loop_with_the_mod_relays_too() -> None:
    """The same model as with the dense one sent down; every message but the first is relayed."""
    half, models = parse("ef(topk(0.5) | float32 | golomb)"), []
    for down in (Raw(), Relay()):
        grid = grid_of(modded_app(Pull([(8.0, 4.0), (100.0, -60.0)]), half, down), 2)
        strategy = DelayedDSGD(half, down, clients=2)
        models.append(strategy.start(grid, record([0.0, 0.0]), num_rounds=3).arrays["w"].numpy())
    assert strategy.channel is not None
    assert {down.kind for down in strategy.channel.traffic.downlinks.values()} == {"relay"}
    assert models[0].tolist() == models[1].tolist() and models[0].any()

"""A client that returns after missed rounds: the updates that it missed, or the model, charged."""

import pytest
import torch
from flwr.app import ConfigRecord, Message, RecordDict

from compressors import Compressor, PayloadError, Raw, compress, decompress, gradient_dropping
from strategies import ClientEnd, ServerEnd
from strategies.channel.client_end import one_by_one
from strategies.channel.downlinks import Updates, join_updates, split_updates
from strategies.channel.payload import put

LIKE = {"w": torch.zeros(40)}
FEW, MANY = gradient_dropping(0.05), gradient_dropping(0.4)


def reply() -> Message:
    content = RecordDict()
    put(content, compress(Raw(), LIKE)[0].payload)
    return Message(content, reply_to=Message(RecordDict(), dst_node_id=1, message_type="train"))


def change(number: int) -> dict[str, torch.Tensor]:
    return {"w": torch.randn(40, generator=torch.Generator().manual_seed(number))}


class Rounds:
    """A server, and client 2 of three, which decodes what it is sent."""

    def __init__(self, downlink: Compressor) -> None:
        self.server = ServerEnd(Raw(), downlink, LIKE, catch_up=True)
        self.end = ClientEnd(Raw(), downlink, LIKE)
        self.memory: dict[str, torch.Tensor] | None = None
        self.updates: list[bytes] = []

    def play(self, number: int, cohort: list[int], answers: bool = True) -> None:
        self.server.begin(number, cohort)
        for client in cohort:
            content = self.server.content(client, ConfigRecord())
            if client == 2:
                delivery = self.end.decode(content, self.memory)
                for name, x in self.server.weights.items():
                    assert torch.equal(delivery.weights[name], x), number  # bit for bit
                _, self.memory = one_by_one(self.end.encode(2, LIKE, delivery))
            if client != 2 or answers:
                self.server.take(client, reply())
        self.server.finish(0)
        self.server.advance(change(number))
        assert isinstance(self.server.policy, Updates) and self.server.policy.last is not None
        self.updates.append(self.server.policy.last.payload)


def test_five_rounds_by_hand() -> None:
    """Client 2 is there in rounds 1, 4 and 5: in round 4 it lacks the updates of rounds 1 to 3.

    Each has 2 of 40 entries; three of them and three bytes of lengths are shorter than 40 floats.
    """
    rounds = Rounds(FEW)
    for number, cohort in enumerate(([0, 1, 2], [0, 1], [0, 1], [0, 1, 2]), 1):
        rounds.play(number, cohort)
    down = rounds.server.traffic.downlinks[2]
    assert (down.kind, down.charged) == ("updates", True)
    assert down.payload == join_updates(rounds.updates[:3])
    assert len(down.payload) == sum(map(len, rounds.updates[:3])) + 3
    assert sum(down.spans.values()) == 8 * len(down.payload)
    assert rounds.server.traffic.downlinks[0].kind == "update"
    rounds.play(5, [2])
    assert rounds.server.traffic.downlinks[2].kind == "update"


def test_the_model_where_the_updates_are_longer() -> None:
    """Each update has 16 of 40 entries: three are longer than the model, and one is shorter."""
    rounds = Rounds(MANY)
    for number, cohort in enumerate(([0, 2], [0], [0], [0, 2], [0, 2]), 1):
        rounds.play(number, cohort)
        kind = rounds.server.traffic.downlinks[0].kind
        assert kind == ("model" if number == 1 else "update")
        if number == 4:
            down = rounds.server.traffic.downlinks[2]
            assert down.kind == "model"
            assert sum(map(len, rounds.updates[:3])) > len(down.payload)
    assert rounds.server.traffic.downlinks[2].kind == "update"


def test_a_client_whose_answer_was_lost_leaves_out_what_it_has() -> None:
    """Client 2 read round 2's update, its answer was lost: in round 4 it is sent all three."""
    rounds = Rounds(FEW)
    rounds.play(1, [0, 2])
    rounds.play(2, [0, 2], answers=False)
    rounds.play(3, [0])
    rounds.play(4, [0, 2])
    assert rounds.server.traffic.downlinks[2].payload == join_updates(rounds.updates[:3])


def test_what_is_missed_outlives_a_restart() -> None:
    rounds = Rounds(FEW)
    for number, cohort in ((1, [0, 2]), (2, [0]), (3, [0])):
        rounds.play(number, cohort)
    again = ServerEnd(Raw(), FEW, LIKE, catch_up=True)
    again.restore(*rounds.server.state())
    assert again.begin(4, [2]).downlinks[2] == rounds.server.begin(4, [2]).downlinks[2]


def test_updates_that_are_not_as_many_are_refused() -> None:
    assert split_updates(join_updates([b"a" * 200, b""]), 2) == [b"a" * 200, b""]
    for damaged in (
        join_updates([b"ab"]),
        join_updates([b"ab", b"cd"])[:-1],
        join_updates([b"a"] * 3),
    ):
        with pytest.raises(PayloadError, match="2 updates were missed"):
            split_updates(damaged, 2)
    assert decompress(FEW, compress(FEW, change(1))[0].payload, LIKE)["w"].count_nonzero() == 2

"""A parameter server in parts by hand, with dropping both ways."""

from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from flwr.app import Message, RecordDict
from torch import Tensor
from torch.optim import SGD

from compressors import Compressor, Raw, gradient_dropping
from fedsim.federation.ledger import charged_bits
from fedsim.federation.updates import Update, merge_updates
from fedsim.ground.records import ClientTiming
from strategies import ClientEnd, RoundInfo, Sharded, build
from strategies.algorithms.sharded import of_part
from strategies.channel.parts import ModelParts, PartsEnd, line_seed
from strategies.server.sharded import ShardedStrategy
from tests.support.turning import Turning

LIKE = {"w": torch.zeros(6)}


def three(up: Compressor, down: Compressor) -> Turning:
    """Three workers; worker i holds the entries 2 i and 2 i + 1."""
    server = build(Sharded(partial(SGD, lr=1.0)), up, down, clients=3)
    world = Turning(server, PartsEnd(ClientEnd(up, down, LIKE), 3), LIKE)
    for worker in range(3):
        world.ask(worker)
    return world


class Noting(Sharded):
    """Notes what its steps know of the round."""

    infos: ClassVar[list[RoundInfo]] = []

    def step(self, *given: Any) -> Any:
        self.infos.append(given[-1])
        return super().step(*given)


def test_a_rule_of_ones_own_knows_the_method_and_the_part() -> None:
    up = gradient_dropping(0.5)
    server = build(Noting(partial(SGD, lr=1.0)), up, Raw(), clients=3, seed=7)
    world = Turning(server, PartsEnd(ClientEnd(up, Raw(), LIKE), 3), LIKE)
    world.ask(0)
    world.turn(0, gradient(4, 1))
    assert [(x.uplink, x.clients, x.number) for x in Noting.infos] == [(up, 3, 1)] * 3
    assert [x.seed for x in Noting.infos] == [line_seed(7, place) for place in range(3)]


def gradient(first: float, second: float) -> dict[str, Tensor]:
    return {"w": torch.tensor([first, second, 0.0, 0, 0, 0])}


def model(world: Turning) -> list[float]:
    channel = world.server.channel
    assert channel is not None
    return channel.weights["w"][:2].tolist()


# Worker, its gradient in the first part, the part after the push, what the worker pulls of it.
BY_HAND = [
    (0, (4, 1), [-4, 0], [-4, 0]),  # sends (4, 0) and keeps (0, 1)
    (1, (0, 2), [-4, -2], [-4, 0]),  # the difference (-4, -2) is dropped to (-4, 0)
    (0, (1, 1), [-4, -4], [-4, -4]),  # sends (0, 2) of (1, 2); the difference is (0, -4)
    (2, (8, 0), [-12, -4], [-12, 0]),
    (1, (0, 1), [-12, -5], [-12, 0]),  # from (-4, 0): the difference (-8, -5) becomes (-8, 0)
]


def test_five_pushes_of_three_workers() -> None:
    world, stale = three(gradient_dropping(0.5), gradient_dropping(0.5)), []
    for worker, values, after, pulled in BY_HAND:
        stale.append(world.turn(worker, gradient(*values)).staleness)
        assert model(world) == after
        assert world.seen[worker]["w"].tolist() == [*pulled, 0, 0, 0, 0]
    assert stale == [0, 1, 1, 3, 2]


def test_dense_pulls_are_the_model() -> None:
    world = three(Raw(), Raw())
    for worker, values, _, _ in BY_HAND:
        world.turn(worker, gradient(*values))
        assert world.seen[worker]["w"].tolist()[:2] == model(world)
    assert model(world) == [-13, -5]


def test_a_pull_that_failed_is_made_good_by_the_next() -> None:
    world = three(gradient_dropping(0.5), gradient_dropping(0.5))
    for worker, values, _, _ in BY_HAND[:2]:
        world.turn(worker, gradient(*values))
    arrival = world.arrive(1, None)
    assert arrival.uplink is None and arrival.traffic.failures == {1: "out of order"}
    world.ask(1)
    assert world.seen[1]["w"].tolist()[:2] == [-4, 0]  # from what worker 1 holds: (0, 0)


def test_a_worker_whose_push_was_refused_is_sent_the_whole_part() -> None:
    """It has gone on to what it was given, and the server's copy of what it holds is older."""
    world = three(gradient_dropping(0.5), gradient_dropping(0.5))
    for worker, values, _, _ in BY_HAND[:2]:
        world.turn(worker, gradient(*values))
    server = world.server
    assert isinstance(server, ShardedStrategy)
    server.ends[0].max_norm = 0.5
    arrival = world.turn(1, gradient(8, 0))
    assert arrival.uplink is None and "at most 0.5 is allowed" in arrival.traffic.failures[1]
    assert 1 not in server.ends[0].base
    assert world.seen[1]["w"].tolist()[:2] == model(world) == [-4, -2]


@pytest.mark.parametrize(("method", "lost"), [(Raw(), [1]), (gradient_dropping(0.5), [])])
def test_a_push_that_never_comes_is_lost_where_no_residual_has_it(
    method: Compressor, lost: list[int]
) -> None:
    world = three(method, method)
    for worker, values, _, _ in BY_HAND[:2]:
        world.turn(worker, gradient(*values))
    server = world.server
    assert isinstance(server, ShardedStrategy)
    server.loses(1)
    assert [end.in_flight[1].traffic.dropped for end in server.ends] == [lost] * 3
    assert not any(1 in end.base for end in server.ends)


def test_all_bits_of_a_push_that_was_refused_in_part_are_booked() -> None:
    """Worker 1 sends parts 0 and 2 over links and keeps part 1; part 0 is refused, 2 has moved."""
    world = three(Raw(), Raw())
    server = world.server
    assert isinstance(server, ShardedStrategy)
    server.ends[0].max_norm = 0.5
    content, asked = world.answer(1, {"w": torch.ones(6)}), Message(RecordDict(), 1, "train")
    came = [server.push(1, place, Message(content, reply_to=asked)) for place in range(3)]
    update = Update(1, None, [0.0] * 4, 0.0, ClientTiming(), arrivals=came, local_part=1)
    bits = [charged_bits(arrival.uplink) for arrival in came if arrival.uplink is not None]
    assert len(bits) == 2 and came[0].traffic.failed_bits[1] == bits[0]
    booked = merge_updates(1, [update])
    assert not booked.uplinks and booked.failed_bits == {0: 2 * bits[0]}
    assert booked.dropped == [0]  # one update, which raw cannot take back


def test_parts_are_equal_and_join_to_the_model() -> None:
    tensors = {"a": torch.arange(12.0).view(3, 4), "b": torch.tensor(12.0), "c": torch.ones(2, 2)}
    parts = ModelParts(tensors, 4)
    cut = [parts.cut(tensors, place) for place in range(4)]
    assert [sum(len(x) for x in part.values()) for part in cut] == [4, 4, 4, 5]
    joined = parts.join(cut)
    assert all(torch.equal(joined[name], x) for name, x in tensors.items())
    with pytest.raises(ValueError, match="17 entries cannot be held in 18 parts"):
        ModelParts(tensors, 18)


def test_the_optimizer_of_a_part_has_its_entries_and_the_whole_count() -> None:
    parts: Any = SimpleNamespace(
        template={"w": torch.zeros(4)}, spans=[{"w": slice(0, 2)}, {"w": slice(2, 4)}]
    )
    piece = torch.nn.Parameter(torch.zeros(2))
    state = of_part(torch.optim.Adagrad, parts, 1, [piece]).state[piece]
    assert state["step"].shape == () and state["sum"].shape == (2,)

"""Servers that do not wait: nothing that clients trained is lost without a count."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from compressors import Compressor, Raw, decompress, gradient_dropping
from strategies import ClientEnd, FedBuff, Staleness, build
from tests.support.linear import Pull, grid_of, modded_app, record, vector
from tests.support.turning import Turning

LIKE = {"w": torch.zeros(4)}


RAW = Raw()


def turning(server: Any, up: Compressor = RAW, down: Compressor = RAW) -> Turning:
    return Turning(server, ClientEnd(up, down, LIKE), LIKE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "polynomial",
        "polynomial(-1)",
        "hinge(1)",
        "linear(2)",
        "polynomial(a)",
        "constant(1)",
        "hinge(1, inf)",
    ],
)
def test_a_weight_that_is_none_says_which_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"is constant, polynomial\(a\) or hinge\(a, b\)"):
        Staleness(text)


def test_a_client_is_sent_what_moved_the_model_since_it_was_asked() -> None:
    """With a lossy downlink clients hold the server's model bit for bit, whatever they missed."""
    down = gradient_dropping(0.5)
    world = turning(build(FedBuff(1), Raw(), down, clients=3), down=down)
    assert world.server.channel is not None
    for client in range(3):
        world.ask(client)
    generator = torch.Generator().manual_seed(0)
    for client in (0, 0, 1, 0, 2, 2, 1):
        world.turn(client, {"w": torch.randn(4, generator=generator)})
        assert torch.equal(world.seen[client]["w"], world.server.channel.weights["w"])


def held(world: Turning, client: int) -> Tensor:
    """A client's residual, and what it has sent that the server does not have."""
    memory, end = world.memory.get(client, {}), world.server.channel
    assert end is not None
    total = memory.get("uplink/residual/w", torch.zeros(4)).double()
    if "pending/round" in memory and end.applied.get(client) != int(memory["pending/round"]):
        payload = memory["pending/payload"].numpy().tobytes()
        total = total + decompress(world.end.uplink, payload, LIKE)["w"].double()
    return total


EVENTS = ["comes", "fails", "lost", "late", "late after a kill"]
happens = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(EVENTS)))


@given(happens)
@settings(max_examples=40, deadline=None)
def test_taken_in_and_held_is_what_was_trained(events: list[tuple[int, str]]) -> None:
    up = gradient_dropping(0.5)
    world = turning(build(FedBuff(2), up, clients=3), up)
    taken, trained = torch.zeros(4).double(), torch.zeros(4).double()
    for client in range(3):
        world.ask(client)
    for number, (client, event) in enumerate(events):
        update = torch.tensor([number + 1.0, -2, 3, client - 40])
        reply = None
        if event != "fails":
            reply = world.answer(client, {"w": update})
            trained += update
        if event == "late after a kill":
            world.killed(build(FedBuff(2), up, clients=3))
        late = event.startswith("late")
        arrival = world.arrive(client, reply if late or event == "comes" else None, late)
        assert (arrival.traffic.failed_bits != {}) == late
        if arrival.uplink is not None:
            taken += arrival.uplink.update["w"]
        failed = client in arrival.traffic.failures
        assert (arrival.uplink is None) == failed == (event != "comes")
        world.ask(client)
        assert torch.equal(taken + sum(held(world, c) for c in range(3)), trained)


def test_in_flower_s_own_loop_replies_are_taken_in_one_by_one() -> None:
    """Clients 0 and 1 go half-way from 0 to 4 and to 8; each update moves the model by half."""
    strategy = build(FedBuff(1, "polynomial(1)", 0.5), Raw(), clients=2)
    grid = grid_of(modded_app(Pull([(4.0, 0.0), (8.0, 0.0)]), Raw()), 2)
    strategy.start(grid, record([0.0, 0.0]), num_rounds=1)
    assert strategy.channel is not None
    assert vector(strategy.channel.weights) == [2 / 2 + 4 / 2 / 2, 0]

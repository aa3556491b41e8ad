"""applied + residual + pending = trained, whatever is lost, late, doubled or reordered."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compressors import ByName, ErrorFeedback, Raw, compress, decompress, gradient_dropping, parse
from compressors.whole.feedback import take_back
from strategies import EF21, build
from strategies.channel.mailbox import LATE
from tests.support.lossynet import CLIENTS, EVENTS, LIKE, World, added

METHODS = {
    "values": gradient_dropping(0.5),
    "powers of two": parse("ef(per_tensor(topk(0.5) | cnat | golomb))"),
    "by rule": ByName((("size<4", ErrorFeedback(Raw())), ("*", gradient_dropping(0.3)))),
    "one vector": parse("ef(flat(topk(0.4) | float32 | golomb))"),
}
DOWNLINKS = {"models": Raw(), "updates": gradient_dropping(0.5)}

events = st.lists(st.tuples(*[st.sampled_from(EVENTS)] * CLIENTS), min_size=2, max_size=9)


ASKS_AGAIN = [
    ("fine",) * CLIENTS,
    ("reply late", "not delivered", "not delivered"),
    ("fine", "not delivered", "not delivered"),
]
"""The first client's update is dropped, and then it asks for the model: it is told both times."""


def updates(number: int) -> dict[int, dict[str, torch.Tensor]]:
    """Whole numbers of each client's own, other ones in every round."""
    found = {}
    for client in range(CLIENTS):
        generator = torch.Generator().manual_seed(10 * number + client)
        found[client] = {
            n: torch.randint(-40, 40, x.shape, generator=generator).float() for n, x in LIKE.items()
        }
    return found


def assert_conserved(world: World) -> None:
    for client in range(CLIENTS):
        sums = added(added(world.applied[client], world.lost[client]), world.held(client))
        for name, x in world.trained[client].items():
            assert torch.equal(sums[name], x), (client, name)


@pytest.mark.parametrize("downlink", DOWNLINKS)
@pytest.mark.parametrize("method", METHODS)
@given(events, st.sampled_from(list(LATE)), st.booleans())
@example(ASKS_AGAIN, "drop", False)
@settings(max_examples=15, deadline=None)
def test_nothing_that_was_trained_is_lost_without_a_count(
    method: str, downlink: str, happens: list[tuple[str, ...]], late: str, catch_up: bool
) -> None:
    """applied + residual + pending + counted as lost = trained; only what is dropped is lost."""
    world = World(METHODS[method], DOWNLINKS[downlink], late, catch_up)
    for number, row in enumerate(happens, 1):
        world.round(number, dict(enumerate(row)), updates(number))
        assert_conserved(world)
    for number in (len(happens) + 1, len(happens) + 2):  # all is well again: all fates are told
        world.round(number, dict.fromkeys(range(CLIENTS), "fine"), updates(number))
        assert_conserved(world)
    assert len(world.server.traffic.uplinks) == CLIENTS
    assert late == "drop" or not any(x.any() for lost in world.lost.values() for x in lost.values())


@given(events, st.sampled_from(("hold", "count")))
@settings(max_examples=25, deadline=None)
def test_what_a_client_has_sent_as_differences_is_what_the_server_has_added_up(
    happens: list[tuple[str, ...]], late: str
) -> None:
    """The memory of ef21 is minus the sum of what was applied, once all fates are told."""
    world = World(parse("ef21(topk(0.5) | float32)"), Raw(), late)
    for number, row in enumerate(happens, 1):
        world.round(number, dict(enumerate(row)), updates(number))
        for client in range(CLIENTS):
            sums = added(world.applied[client], world.held(client))
            assert not any(x.any() for x in sums.values()), client


def test_a_difference_that_is_dropped_would_be_missing_for_ever() -> None:
    """Client 0's first difference is dropped: its sum says 4 more than the server's, for good."""
    world = World(parse("ef21(topk(0.5) | float32)"), Raw(), "drop")
    fine = dict.fromkeys(range(CLIENTS), "fine")
    steady = dict.fromkeys(range(CLIENTS), {"a": torch.zeros(3, 2), "b": torch.tensor([4.0, 1.0])})
    for number in range(1, 7):
        world.round(number, fine | ({0: "reply late"} if number == 1 else {}), steady)
    assert world.applied[1]["b"].tolist() == [4.0, 1.0]
    assert world.applied[0]["b"].tolist() == [0.0, 1.0]  # and it says no more: it is steady
    with pytest.raises(ValueError, match="late is 'drop'.*give hold or count"):
        build(EF21(), parse("ef21(topk(0.5) | float32)"), clients=2, late="drop")


def test_a_refused_update_is_sent_with_the_next_by_hand() -> None:
    """Client 0 sends (4, 0) of (4, 1), too late; with (0, 1) more it sends (4, 0) again."""
    world = World(gradient_dropping(0.5), Raw())
    fine = dict.fromkeys(range(CLIENTS), "fine")
    first = {"a": torch.zeros(3, 2), "b": torch.tensor([4.0, 1.0])}
    second = {"a": torch.zeros(3, 2), "b": torch.tensor([0.0, 1.0])}
    world.round(1, fine | {0: "reply late"}, dict.fromkeys(range(CLIENTS), first))
    assert world.server.traffic.failures == {0: "no reply within the timeout"}
    world.round(2, fine, dict.fromkeys(range(CLIENTS), second))
    assert world.fates == ["returned"]
    assert world.server.traffic.uplinks[0].update["b"].tolist() == [4.0, 0.0]
    assert world.server.traffic.uplinks[1].update["b"].tolist() == [0.0, 2.0]
    assert world.memory[0]["uplink/residual/b"].tolist() == [0.0, 2.0]
    assert world.server.traffic.failed_bits[0] > 0  # the late upload came in the second round


def test_several_that_went_back_are_counted_once_each() -> None:
    """Rounds 1 and 2 of client 0 are late, 3 is used; then 4 is late and 5 is used."""
    world = World(gradient_dropping(0.5), Raw())
    fine = dict.fromkeys(range(CLIENTS), "fine")
    told = []
    for number, late in enumerate((True, True, False, True, False, False), 1):
        world.fates = []
        world.round(number, fine | ({0: "reply late"} if late else {}), updates(number))
        told.append(world.fates.count("returned"))
    assert told == [0, 0, 2, 0, 1, 0]


def test_a_method_without_a_memory_counts_what_is_lost() -> None:
    world = World(Raw(), Raw())
    fine = dict.fromkeys(range(CLIENTS), "fine")
    world.round(1, fine | {2: "reply lost"}, updates(1))
    world.round(2, fine, updates(2))
    assert world.fates == ["lost"]


def test_dgc_takes_back_into_its_velocity() -> None:
    method = parse("dgc(0.5, 0, 0.5)")
    state = method.init(LIKE)
    packet, after = compress(method, updates(1)[0], state)
    back, lost = take_back(method, decompress(method, packet.payload, LIKE), after)
    assert lost == {}
    for name, x in updates(1)[0].items():
        assert torch.equal(back[f"velocity/{name}"], x)

"""What senders keep from message to message, by hand: every number was worked out on paper."""

from typing import Any

import pytest
import torch
from torch import Tensor

from compressors import DGC, compress, decompress, parse
from compressors.whole.feedback import holds, loses, take_back
from compressors.whole.growth import grows
from compressors.whole.keepers import needs_server, parts_of
from compressors.whole.memory import added, nest, recall, unnest
from tests.support.byhand import sends


def close(x: Tensor, values: list[float]) -> bool:
    return torch.allclose(x, torch.tensor(values), atol=1e-6)


# --- ef: residuals ------------------------------------------------------------------------------


def test_a_residual_is_what_did_not_arrive() -> None:
    """The larger of two: 4; then 1 + 1 = 2 beside 3; then 0.5 + 2 = 2.5 beside 0.5."""
    sends(
        "ef(topk(0.5) | float32)",
        "residual",
        [
            ([4.0, 1.0], [4, 0], [0, 1]),
            ([3.0, 1.0], [3, 0], [0, 2]),
            ([0.5, 0.5], [0, 2.5], [0.5, 0]),
        ],
    )


def test_with_a_decay_it_fades_before_the_update_is_added() -> None:
    """Half of it: 2 + 1 / 2 = 2.5 beside 1; then 1 / 2 is all there is."""
    sends(
        "ef(topk(0.5) | float32, 0.5)",
        "residual",
        [
            ([4.0, 1.0], [4, 0], [0, 1]),
            ([1.0, 2.0], [0, 2.5], [1, 0]),
            ([0.0, 0.0], [0.5, 0], [0, 0]),
        ],
    )


def test_a_dense_method_keeps_what_it_rounded_off() -> None:
    """l1_sign sends the mean magnitude: 2 of (3, -1), then of (3 + 1, 1 + 1) it is 3."""
    sends(
        "ef(l1_sign)",
        "residual",
        [
            ([3.0, -1.0], [2, -2], [1, 1]),
            ([3.0, 1.0], [3, 3], [1, -1]),
        ],
    )


def test_sparseloco_by_hand() -> None:
    """Ten values, all sent, in four bins of 4.02 / 4 deviations, two on either side of their mean.

    Eight 1, a 2 and an 11: mean 2.1, deviation sqrt((8 * 1.21 + 0.01 + 79.21) / 9) = 3.143, bins
    3.16 wide: 1 and 2 lie in the one below the mean, whose mean is 10 / 9; 11 is in the last. Left
    are -1 / 9 and 8 / 9, of which half is sent next: -1 / 18 and 8 / 18, mean 0, deviation 1 / 6,
    bins 0.1675 wide: -1 / 18 below the mean, 8 / 18 in the last, so that nothing is left.
    """
    method, update = parse("sparseloco(1, 0.5, 10)"), [1.0] * 8 + [2.0, 11.0]
    first, state = compress(method, {"w": torch.tensor(update)})
    assert close(first.sent["w"].decoded, [10 / 9] * 9 + [11])
    assert close(state["residual/w"], [-1 / 9] * 8 + [8 / 9, 0])
    second, state = compress(method, {"w": torch.zeros(10)}, state)
    assert close(second.sent["w"].decoded, [-1 / 18] * 8 + [8 / 18, 0])
    assert close(state["residual/w"], [0.0] * 10)
    assert parse("sparseloco(0.5)").decay == 0.95


# --- ef21, diana, marina ------------------------------------------------------------------------


def test_ef21_keeps_the_sum_of_what_it_sent() -> None:
    """4; then the difference (0, 1); then nothing; then (1, 3) - (4, 1) = (-3, 2), of it -3."""
    sends(
        "ef21(topk(0.5) | float32)",
        "shift",
        [
            ([4.0, 1.0], [4, 0], [-4, 0]),
            ([4.0, 1.0], [0, 1], [-4, -1]),
            ([4.0, 1.0], [0, 0], [-4, -1]),
            ([1.0, 3.0], [-3, 0], [-1, -1]),
        ],
    )


def test_diana_s_shift_moves_by_alpha_of_what_is_sent() -> None:
    """Alpha 1 / 2: of (4, 1) the shift is (2, 0.5); the rest is sent, and it is (3, 0.75).

    Then the update is zero: minus the shift is sent, of which half comes off.
    """
    sends(
        "diana(float32, 0.5)",
        "learned",
        [
            ([4.0, 1.0], [4, 1], [-2, -0.5]),
            ([4.0, 1.0], [2, 0.5], [-3, -0.75]),
            ([0.0, 0.0], [-3, -0.75], [-1.5, -0.375]),
        ],
    )


def test_diana_s_own_step_is_one_over_one_plus_omega() -> None:
    """randk(1 / 4) of 8: omega = 8 / 2 - 1 = 3; 1/8 of 8: omega 7; raw: none."""
    template = {"w": torch.zeros(8)}
    assert parse("diana(randk(0.25) | float32)").steps(template) == {"w": 0.25}
    assert parse("diana(randk(0.125) | float32)").steps(template) == {"w": 0.125}
    assert parse("diana(float32)").steps(template) == {"w": 1.0}


def test_marina_sends_dense_then_differences_and_keeps_nothing() -> None:
    """Behind the header of 3 bytes a bit says which: 1 and two numbers of 32 bits; then 0 and
    (5, 0) - (4, 1) in natural compression, 9 bits each."""
    method, template = parse("marina(cnat, 0.1)"), {"w": torch.tensor([4.0, 1.0])}
    dense, state = compress(method, template)
    assert state == {} and dense.sent["w"].decoded.tolist() == [4, 1]
    assert dense.spans["values"] == 64 and len(dense.payload) == 3 + 9
    assert dense.payload[3] >> 7 == 1
    now = {"w": torch.tensor([5.0, 0.0])}
    change, state = compress(method, now, {f"before/{n}": x for n, x in template.items()})
    assert change.sent["w"].decoded.tolist() == [1, -1] and state == {}
    assert change.spans["values"] == 18 and len(change.payload) == 3 + 3
    assert change.payload[3] >> 7 == 0
    assert decompress(method, change.payload, now)["w"].tolist() == [1, -1]


# --- dgc ----------------------------------------------------------------------------------------


def test_dgc_s_warm_up_of_sixteen_entries() -> None:
    """p = 1/16 in three stages of two messages: 1/2, 1/4 and 1/8 of the entries, then 1/16."""
    dgc, state = DGC(1 / 16, warmup=3, stage=2, momentum=0.0), None
    counts = []
    for _ in range(8):
        packet, state = compress(dgc, {"w": torch.arange(1.0, 17.0)}, state)
        counts.append(packet.sent["w"].count)
    assert counts == [8, 8, 4, 4, 2, 2, 1, 1]


def test_dgc_s_momentum_stops_where_an_entry_was_sent() -> None:
    """Momentum 1 / 2, one of two entries a message.

    g (4, 3): u = v = (4, 3), 4 goes. g 0: u (0, 1.5), v (0, 4.5) goes. g (1, 1): u and v (1, 1),
    the first of equals goes; without masks u would be (2, 1.75). g 0: u (0, 0.5), v (0, 1.5).
    """
    dgc, state = DGC(0.5, warmup=0, momentum=0.5), None
    for update, sent, u, v in (
        ([4.0, 3.0], [4, 0], [0, 3], [0, 3]),
        ([0.0, 0.0], [0, 4.5], [0, 0], [0, 0]),
        ([1.0, 1.0], [1, 0], [0, 1], [0, 1]),
        ([0.0, 0.0], [0, 1.5], [0, 0], [0, 0]),
    ):
        packet, state = compress(dgc, {"w": torch.tensor(update)}, state)
        assert packet.sent["w"].decoded.tolist() == sent
        assert state["momentum/w"].tolist() == u and state["velocity/w"].tolist() == v


# --- what goes back -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "kept", "before", "back"),
    [
        ("ef(topk(0.5) | float32)", "residual", [0, 1], [4, 1]),
        ("ef21(topk(0.5) | float32)", "shift", [-4, 0], [0, 0]),
        ("diana(float32, 0.25)", "learned", [-1, -0.25], [0, 0]),  # a quarter of what was sent
        ("dgc(0.5, warmup=0)", "velocity", [0, 1], [4, 1]),
    ],
)
def test_what_was_not_applied_goes_back(
    method: str, kept: str, before: list[float], back: list[float]
) -> None:
    """Of a first update (4, 1)."""
    made, update = parse(method), {"w": torch.tensor([4.0, 1.0])}
    packet, state = compress(made, update)
    assert state[f"{kept}/w"].tolist() == before
    after, lost = take_back(made, {"w": packet.sent["w"].decoded}, state)
    assert after[f"{kept}/w"].tolist() == back and lost == {} and holds(made, update)


def test_what_no_memory_takes_back_is_lost() -> None:
    """By name: `a` has a residual, `b` travels raw."""
    made = parse("by_name('a', ef(topk(0.5) | float32), '*', raw)")
    update = {"a": torch.tensor([4.0, 1.0]), "b": torch.tensor([7.0])}
    packet, state = compress(made, update)
    carried = {name: one.decoded for name, one in packet.sent.items()}
    after, lost = take_back(made, carried, state)
    assert after["0/residual/a"].tolist() == [4, 1]
    assert {name: x.tolist() for name, x in lost.items()} == {"b": [7.0]}
    assert holds(made, update) and not holds(made, {"b": update["b"]})
    assert loses(made, update) == {"b"}


def test_memories_by_name() -> None:
    state = nest("residual", {"w": torch.ones(2)}) | nest("inner", {"q/w": torch.zeros(1)})
    assert list(state) == ["residual/w", "inner/q/w"]
    assert [*unnest("inner", state)] == ["q/w"] and unnest("res", state) == {}
    assert recall("residual", state, {"w": (2,)})["w"].tolist() == [1, 1]
    update = {"w": torch.tensor([1.0, 2.0])}
    found = added(update, {"w": torch.tensor([0.5, 0.25])})
    assert found["w"].tolist() == [1.5, 2.25] and update["w"].tolist() == [1, 2]


def test_parts_and_servers() -> None:
    """A method's parts from the outside in; the first that has a server of its own says so."""
    kinds = [type(part).__name__ for part in parts_of(parse("ef(topk(0.5) | float32)"))]
    assert kinds[:5] == ["ErrorFeedback", "PerTensor", "Pipeline", "TopK", "float"]
    servers = {
        "raw": "",
        "diana(cnat)": "diana",
        "marina(cnat, 0.5)": "marina",
        "by_name('w', raw, '*', ef21(cnat))": "ef21",
    }
    assert {text: needs_server(parse(text)) for text in servers} == servers


@pytest.mark.parametrize(("entries", "refused"), [(8, False), (9, True)])
def test_where_the_noise_of_qsgd_is_as_large_as_its_signal(entries: int, refused: bool) -> None:
    """With s = 3 levels omega = min(d / 9, sqrt(d) / 3): 1 for 9 entries, 8 / 9 for 8."""
    template: dict[str, Any] = {"w": torch.ones(entries)}
    assert bool(grows(parse("qsgd(3)"), template)) is refused

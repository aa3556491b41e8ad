"""EF21's sender: its algorithm, what it refuses, and what goes back into its memory."""

import pytest
import torch

from compressors import UpdateError, compress, parse
from compressors.whole.feedback import holds, take_back
from compressors.whole.keepers import needs_server

METHOD = parse("ef21(topk(0.2) | float32)")


def test_it_is_algorithm_2() -> None:
    """c = C(update - g), then g + c; the receiver's sum of messages is g."""
    drawn, state, g = torch.Generator().manual_seed(1), None, torch.zeros(50)
    for _ in range(6):
        update = torch.randn(50, generator=drawn)
        rest = update - g
        kept = torch.zeros(50)
        kept[rest.abs().topk(10).indices] = rest[rest.abs().topk(10).indices]
        packet, state = compress(METHOD, {"w": update}, state)
        assert torch.allclose(packet.sent["w"].decoded, kept, atol=1e-6)
        g = g + kept
        assert torch.allclose(state["shift/w"], -g, atol=1e-6)


def test_a_steady_update_is_known_after_1_over_p_messages() -> None:
    update, state, total = {"w": torch.arange(1.0, 51)}, None, torch.zeros(50)
    for _ in range(5):
        packet, state = compress(METHOD, update, state)
        total += packet.sent["w"].decoded
    assert torch.equal(total, update["w"])
    assert compress(METHOD, update, state)[0].spans["values"] == 0


def test_what_was_not_applied_is_sent_again() -> None:
    update = {"w": torch.arange(1.0, 51)}
    first, state = compress(METHOD, update)
    back, lost = take_back(METHOD, {"w": first.sent["w"].decoded}, state)
    assert holds(METHOD, update) and not lost
    assert compress(METHOD, update, back)[0].payload == first.payload


def test_it_is_refused_for_sizes_and_where_it_overflows() -> None:
    with pytest.raises(UpdateError, match="ef21 around qsgd|ef21 around dither"):
        compress(parse("ef21(qsgd(7))"), {"w": torch.ones(1000)})
    high = {"w": torch.full((4,), 3e38)}
    with pytest.raises(UpdateError, match="'w' and its memory overflow float32"):
        compress(METHOD, high, {"shift/w": high["w"]})
    assert needs_server(parse("by_name('w', ef21(cnat), '*', raw)")) == "ef21"

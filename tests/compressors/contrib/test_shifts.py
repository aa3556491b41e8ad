"""DIANA's sender: its algorithm, its step, what it refuses, what goes back into its memory."""

import pytest
import torch

from compressors import NotFinite, compress, decompress, parse
from compressors.whole.feedback import take_back

METHOD = parse("diana(randk(0.2) | float32)")


def test_it_is_algorithm_1() -> None:
    """d = Q(update - h), then h + alpha d; with randk(0.2) omega is 4 and alpha is 0.2."""
    drawn, state, h = torch.Generator().manual_seed(1), None, torch.zeros(50)
    inner = parse("randk(0.2) | float32")
    for number in range(6):
        update = torch.randn(50, generator=drawn)
        payload = compress(inner, {"w": update - h}, seed=number)[0].payload
        d = decompress(inner, payload, {"w": h})["w"]
        packet, state = compress(METHOD, {"w": update}, state, seed=number)
        assert torch.allclose(packet.sent["w"].decoded, d, atol=1e-5)
        h = h + 0.2 * d
        assert torch.allclose(state["learned/w"], -h, atol=1e-5)


def test_the_step_goes_by_what_a_codec_sees() -> None:
    template = {"a": torch.empty(16), "b": torch.empty(0), "c": torch.empty(84)}
    alone = parse("diana(terngrad(none))").steps(template)
    assert alone == {"a": pytest.approx(2 / 5), "b": 1.0, "c": pytest.approx(2 / (1 + 84**0.5))}
    assert parse("diana(flat(terngrad(none)))").steps(template)["a"] == pytest.approx(2 / 11)
    rules = parse("diana(by_name('a', raw, '*', terngrad(none)))").steps(template)
    assert rules == alone | {"a": 1.0} and list(rules) == list(template)
    assert set(parse("diana(terngrad(none), 0.5)").steps(template).values()) == {0.5}


def test_what_was_not_applied_leaves_no_trace() -> None:
    update = {"w": torch.arange(1.0, 51)}
    _, state = compress(METHOD, update, seed=1)
    second, after = compress(METHOD, update, state, seed=2)
    back, lost = take_back(METHOD, {"w": second.sent["w"].decoded}, after)
    assert not lost and torch.allclose(back["learned/w"], state["learned/w"], atol=1e-4)
    assert not torch.allclose(after["learned/w"], state["learned/w"], atol=1e-4)


def test_overflow_names_the_tensor() -> None:
    high = {"w": torch.full((4,), 3e38)}
    with pytest.raises(NotFinite, match="'w' and its memory overflow float32"):
        compress(parse("diana(float32)"), high, {"learned/w": high["w"]})

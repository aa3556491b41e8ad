"""DIANA's sender: its algorithm, its step, what it refuses, what goes back into its memory."""

import math

import pytest
import torch

from compressors import NotFinite, compress, decompress, parse
from compressors.whole.feedback import take_back
from compressors.whole.keepers import needs_server

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


@pytest.mark.parametrize("d", [4, 100, 10**6])
def test_the_step_of_terngrad_is_the_papers(d: int) -> None:
    """The paper's alpha_p(d) for its quantization in the maximum norm: 2 / (1 + sqrt d)."""
    template = {"w": torch.empty(d, device="meta")}
    steps = parse("diana(terngrad(none))").steps(template)
    assert steps["w"] == pytest.approx(2 / (1 + math.sqrt(d)))


def test_the_step_goes_by_what_a_codec_sees() -> None:
    template = {"a": torch.empty(16), "b": torch.empty(0), "c": torch.empty(84)}
    alone = parse("diana(terngrad(none))").steps(template)
    assert alone == {"a": pytest.approx(2 / 5), "b": 1.0, "c": pytest.approx(2 / (1 + 84**0.5))}
    assert parse("diana(flat(terngrad(none)))").steps(template)["a"] == pytest.approx(2 / 11)
    rules = parse("diana(by_name('a', raw, '*', terngrad(none)))").steps(template)
    assert rules == alone | {"a": 1.0} and list(rules) == list(template)
    assert set(parse("diana(terngrad(none), 0.5)").steps(template).values()) == {0.5}


def test_a_steady_update_is_learned() -> None:
    """What is sent goes to zero, and with it the noise, however coarse the method."""
    update, state = {"w": torch.arange(1.0, 51)}, None
    sizes = []
    for number in range(60):
        packet, state = compress(METHOD, update, state, seed=number)
        sizes.append(float(packet.sent["w"].decoded.norm()))
    assert sizes[-1] < 1e-3 * sizes[0]


@pytest.mark.slow
def test_unlike_clients_reach_the_optimum_and_without_shifts_they_do_not() -> None:
    """The paper's point: f_i = ||x - a_i||^2 / 2, whose gradients are not zero at the mean of a."""
    targets = torch.randn(4, 50, generator=torch.Generator().manual_seed(2))
    away = []
    for text in ("randk(0.2) | float32", "diana(randk(0.2) | float32)"):
        method, x, h = parse(text), torch.zeros(50), torch.zeros(50)
        states = [None] * 4
        for number in range(400):
            each = []
            for i, a in enumerate(targets):
                packet, states[i] = compress(method, {"w": x - a}, states[i], seed=4 * number + i)
                each.append(packet.sent["w"].decoded)
            d = sum(each) / 4
            x = x - 0.2 * (h + d)
            h = h + (0.2 * d if needs_server(method) else 0)
        away.append(float((x - targets.mean(0)).norm()))
    assert away[0] > 0.3 and away[1] < 1e-4


def test_what_was_not_applied_leaves_no_trace() -> None:
    update = {"w": torch.arange(1.0, 51)}
    _, state = compress(METHOD, update, seed=1)
    second, after = compress(METHOD, update, state, seed=2)
    back, lost = take_back(METHOD, {"w": second.sent["w"].decoded}, after)
    assert not lost and torch.allclose(back["learned/w"], state["learned/w"], atol=1e-4)
    assert not torch.allclose(after["learned/w"], state["learned/w"], atol=1e-4)


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("diana(topk(0.1) | float32)", r"which is biased.*use ef21\(topk\(0.1\)"),
        ("diana(ef(cnat))", r"diana around ef\(.*has a memory of its own"),
        ("diana(diana(cnat))", "has a memory of its own"),
        ("diana(cnat, 0)", "alpha is 0: 0 < alpha <= 1"),
        ("diana(cnat, 1.5)", "alpha is 1.5: 0 < alpha <= 1"),
        ("diana(3)", "takes a compressor"),
    ],
)
def test_it_is_refused(method: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(method)


def test_overflow_names_the_tensor() -> None:
    high = {"w": torch.full((4,), 3e38)}
    with pytest.raises(NotFinite, match="'w' and its memory overflow float32"):
        compress(parse("diana(float32)"), high, {"learned/w": high["w"]})

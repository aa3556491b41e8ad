"""MARINA's messages: one bit, then a gradient or how it changed."""

import pytest
import torch

from compressors import NotFinite, PayloadError, compress, decompress, parse

METHOD = parse("marina(randk(0.2) | float32, 0.1)")


def test_a_difference_is_what_the_inner_method_sends() -> None:
    drawn = torch.Generator().manual_seed(1)
    now, before = torch.randn(50, generator=drawn), torch.randn(50, generator=drawn)
    inner, _ = compress(parse("randk(0.2) | float32"), {"w": now - before}, seed=3)
    packet, state = compress(METHOD, {"w": now}, {"before/w": before}, seed=3)
    assert torch.equal(packet.sent["w"].decoded, inner.sent["w"].decoded)
    assert packet.spans["values"] == inner.spans["values"] and state == {}
    assert torch.equal(decompress(METHOD, packet.payload, {"w": now})["w"], inner.sent["w"].decoded)


def test_without_a_gradient_before_it_is_dense() -> None:
    update = {"w": torch.randn(50)}
    packet, state = compress(METHOD, update)
    assert torch.equal(packet.sent["w"].decoded, update["w"])
    assert packet.spans["values"] == 50 * 32 and state == {}


def test_golden_difference() -> None:
    """By hand: bit 0, signs 0, 0, 1, and the exponents 128, 0 and 130 of 2, 0 and -8."""
    method = parse("marina(cnat, 0.1)")
    update = {"w": torch.tensor([4.0, 1.0, -8.0])}
    payload = compress(method, update, {"before/w": torch.tensor([2.0, 1.0, 0.0])})[0].payload
    assert payload.hex() == "011a1518000820"


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("marina(topk(0.1) | float32, 0.1)", "which is biased: marina needs an unbiased method"),
        ("marina(ef(cnat), 0.1)", "marina around ef.*has a memory of its own"),
        ("marina(diana(cnat), 0.1)", "has a memory of its own"),
        ("marina(cnat, 0)", "marina: p is 0"),
        ("marina(3, 0.1)", "takes a compressor"),
    ],
)
def test_it_is_refused(method: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(method)


def test_overflow_and_damage() -> None:
    high = {"w": torch.full((4,), 3e38)}
    with pytest.raises(NotFinite, match="'w' and its memory overflow float32"):
        compress(METHOD, high, {"before/w": -high["w"]})
    payload = compress(METHOD, high, {"before/w": high["w"]})[0].payload
    with pytest.raises(PayloadError):  # a dense message is longer
        decompress(METHOD, payload[:7] + bytes([payload[7] ^ 0x80]) + payload[8:], high)

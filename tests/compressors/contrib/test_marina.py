"""MARINA's messages: one bit, then a gradient or how it changed."""

import pytest
import torch

from compressors import NotFinite, compress, decompress, parse

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


def test_a_difference_that_overflows_is_named() -> None:
    high = torch.full((4,), 3e38)
    with pytest.raises(NotFinite, match="'w' and its memory overflow float32"):
        compress(METHOD, {"w": high}, {"before/w": -high})

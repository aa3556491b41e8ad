"""Payloads that were cut, extended, flipped or made up: an error or a legal update, always."""

import math

import pytest
import torch

from compressors import BitWriter, PayloadError, Tensors, compress, explain, parse
from tests.compressors.test_short_messages import taken
from tests.support.generators import (
    METHODS,
    bits_of,
    decoded,
    from_bits,
    small_update,
    to_bits,
    whole_numbers,
)
from tests.support.looping import looped

every_method = pytest.mark.parametrize("method", METHODS)


def is_refused_or_legal(method: str, payload: bytes, template: Tensors) -> bool:
    """Whether the payload was refused; where it was not, what it decodes to is checked."""
    try:
        got = decoded(method, payload, template)
    except PayloadError:
        return True
    assert list(got) == list(template)
    for name, x in template.items():
        assert got[name].shape == x.shape
        assert bool(torch.isfinite(got[name]).all())
    return False


def message(method: str) -> tuple[bytes, dict[str, torch.Tensor]]:
    """The second message of a sender, so that residuals are in it."""
    update = small_update()
    _, memory = compress(parse(method), small_update(1))
    return compress(parse(method), update, memory)[0].payload, update


@pytest.mark.slow
@every_method
def test_cut_at_every_length(method: str) -> None:
    payload, template = message(method)
    for length in range(len(payload)):
        with pytest.raises(PayloadError):
            decoded(method, payload[:length], template)
        with pytest.raises(PayloadError):
            explain(parse(method), payload[:length], template)


@every_method
@looped("tail", [b"\0", b"\1", b"\xff" * 9])
def test_trailing_data(method: str, tail: bytes) -> None:
    payload, template = message(method)
    with pytest.raises(PayloadError):
        decoded(method, payload + tail, template)


@pytest.mark.slow
@every_method
def test_flipped_bits(method: str) -> None:
    """Every bit of version and fingerprint, every third behind: ``test_fuzz`` flips more."""
    payload, template = message(method)
    step = 3 if len(payload) < 100 else 7  # prime to 8: every place in a byte comes up
    for bit in [*range(24), *range(24, 8 * len(payload), step)]:
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        refused = is_refused_or_legal(method, bytes(flipped), template)
        assert refused or bit >= 24, "the version and the fingerprint guard themselves"


@every_method
def test_padding_must_be_zero(method: str) -> None:
    update = {"w": whole_numbers(40, 1), "v": whole_numbers(3, 2)}
    packet, _ = compress(parse(method), update)
    out = BitWriter()
    parse(method).write(update, parse(method).init(update), out, 0)
    used = (24 + out.position) % 8
    for bit in range(used or 8, 8):
        flipped = packet.payload[:-1] + bytes([packet.payload[-1] ^ (0x80 >> bit)])
        with pytest.raises(PayloadError, match="padding"):
            decoded(method, flipped, update)


@pytest.mark.parametrize("method", ["topk(0.5) | float32", "one_sided(0.5) | mean", "raw"])
def test_a_short_payload_takes_no_memory(method: str) -> None:
    """Neither the nominal k nor an announced one is believed before its bits are there."""
    n = 1 << 24
    template = {"w": torch.empty(n)}
    frame = compress(parse(method), {"w": torch.zeros(n)})[0].payload[:3]
    announced = BitWriter()
    announced.uint(0, 1)
    announced.gamma(n + 1)
    for body in (b"\xff" * 30, announced.to_bytes() + bytes(30), bytes(30)):

        def refused(payload: bytes = frame + body) -> None:
            with pytest.raises(PayloadError):
                decoded(method, payload, template)

        refused()  # what is compiled or loaded, is so now
        assert taken(refused) < 1 << 20, "of the model's 64 MiB"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("method", ["raw", "topk(0.5) | float32", "one_sided(0.5) | mean"])
def test_a_payload_of_nan_is_refused_by_name(method: str, value: float) -> None:
    """A message that a hostile sender wrote with this very code."""
    update = {"w": torch.tensor([1.0, 3.0])}
    payload = compress(parse(method), update)[0].payload
    honest, bad = (f"{n:032b}" for n in bits_of(torch.tensor([3.0, value])).tolist())
    assert honest in to_bits(payload)
    hostile = from_bits(to_bits(payload).replace(honest, bad))
    with pytest.raises(PayloadError, match="tensor 'w' decodes to NaN or infinity"):
        decoded(method, hostile, update)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "ends early"),
        ("00000000" * 8 + "1", "Elias gamma"),
        ("0 0001000", "7 units announced for a tensor of 3"),
    ],
)
def test_counts_that_cannot_be(body: str, why: str) -> None:
    method, template = "topk(0.5) | float32", {"w": torch.empty(3)}
    frame = compress(parse(method), {"w": torch.zeros(3)})[0].payload[:3]
    with pytest.raises(PayloadError, match=why):
        decoded(method, frame + from_bits(body), template)


def test_a_message_of_another_version() -> None:
    with pytest.raises(PayloadError, match="message version 2: this reads version 1"):
        decoded("raw", b"\x02\x00\x00", {})

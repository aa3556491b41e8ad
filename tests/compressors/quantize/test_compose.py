"""One quantizer on top of another: what travels, and Theorem 5."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import (
    BitWriter,
    Float32,
    Mean,
    Natural,
    Pipeline,
    Then,
    TopK,
    compress,
    decompress,
    parse,
    text,
)
from compressors.base import tensor_seed
from compressors.kernels.noise import words
from compressors.parts import Place, Symbols
from tests.support.generators import whole_numbers


@dataclass(frozen=True)
class Noted:
    """Adds the seed's low bits and writes side information: shows who is given what."""

    needs_seed: ClassVar[bool] = True
    one_sign: ClassVar[bool] = False
    mark: int = 0

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        with out.span("side"):
            out.uint(self.mark, 8)
        return Symbols((values.long() & 0x7F).to(torch.uint8), 128, seed)

    def read_side(self, bits, place: Place):
        with bits.span("side"):
            return 128, bits.uint(8)

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        return symbols.codes.float() + seed % 1024 / 1024


def test_only_the_second_travels() -> None:
    values, place, out = torch.arange(5.0), Place(None, torch.Size([5])), BitWriter()
    both = Then(Noted(7), Float32())
    symbols = both.quantize(values, place, out, seed=3)
    assert out.position == 0  # the first one's side information stayed here
    assert symbols.alphabet == 1 << 32
    shift = tensor_seed(3, 1) % 1024 / 1024  # the first decodes with the seed that it coded with
    assert torch.equal(both.dequantize(symbols, place, 3), values + shift)
    assert not both.needs_seed
    assert Then(Float32(), Noted()).needs_seed

    behind = Then(Float32(), Noted(9))
    symbols = behind.quantize(values, place, out, seed=3)
    assert out.spans()["side"] == out.position == 8
    assert symbols.side == tensor_seed(3, 2)
    shift = tensor_seed(3, 2) % 1024 / 1024
    assert torch.equal(behind.dequantize(symbols, place, 3), values + shift)
    assert tensor_seed(3, 1) % 1024 != tensor_seed(3, 2) % 1024


def test_the_message_is_that_of_the_second() -> None:
    """float16 first: no random part, so the message is that of rounded values."""
    update = {"w": whole_numbers(200, 1) / 3, "v": whole_numbers(30, 2) / 7}
    both = parse("topk(0.5) | then(float16, cnat(rounding=nearest)) | golomb")
    packet, _ = compress(both, update)
    halves = {name: x.half().float() for name, x in update.items()}
    alone, _ = compress(parse("topk(0.5) | cnat(rounding=nearest) | golomb"), halves)
    assert packet.payload[3:] == alone.payload[3:]
    got = decompress(both, packet.payload, update)
    assert all(torch.equal(got[n], packet.sent[n].decoded) for n in update)


def test_exact_firsts_change_nothing_but_the_noise() -> None:
    """Powers of two stay what they are in every quantizer here."""
    update = {"w": 2.0 ** (torch.arange(30) - 15) * torch.tensor([1.0, -1.0]).repeat(15)}
    for method in ("then(cnat, cnat)", "then(bfloat16, cnat(8))", "then(then(cnat, cnat), cnat)"):
        sent = compress(parse(method), update, seed=3)[0].sent["w"]
        assert torch.equal(sent.decoded, update["w"]), method


def moments(first, second, values: Tensor, rounds: int) -> Tensor:
    """||C(x)||**2 / ||x||**2 of ``rounds`` draws."""
    both, place = Then(first, second), Place(None, values.shape)
    found = []
    for seed in range(rounds):
        symbols = both.quantize(values, place, BitWriter(), seed)
        decoded = both.dequantize(symbols, place, seed).double()
        found.append(float(decoded.square().sum() / values.double().square().sum()))
    return torch.tensor(found, dtype=torch.float64)


@dataclass(frozen=True)
class Kept:
    """S_q, value by value: x / q with chance q, else 0. omega = 1 / q - 1, exactly."""

    needs_seed: ClassVar[bool] = False
    one_sign: ClassVar[bool] = False
    q: float = 0.25

    def quantize(self, values: Tensor, place: Place, out: BitWriter, seed: int) -> Symbols:
        stays = torch.from_numpy(words(seed, np.arange(values.numel())) < self.q * 2**32)
        return Symbols((values / self.q * stays).view(torch.int32), 1 << 32)

    def read_side(self, bits, place: Place):
        return 1 << 32, None

    def dequantize(self, symbols: Symbols, place: Place, seed: int) -> Tensor:
        return symbols.codes.view(torch.float32)


def test_theorem_5_is_tight_behind_a_sparsifier() -> None:
    """omega12 = 9/8 omega1 + 1/8, where all entries are 4/3 * 2**k times q: equality.

    S_q with q = 1/4 has omega 3, its kept values are 4/3 * 2**k: second moment 4 * 9/8 = 4.5.
    Five standard errors of the sample's mean, taken from the sample; the same seed for both
    parts, or none for the second, would leave the mean but not this (see the test below).
    """
    values = torch.full((4096,), 4 / 3)
    found = moments(Kept(0.25), Natural(), values, rounds=64)
    omega = 3 * 9 / 8 + 1 / 8
    error = float(found.std()) / 8
    assert error < 0.05
    assert abs(float(found.mean()) - (omega + 1)) < 5 * error


def test_the_two_draw_from_different_streams() -> None:
    """The very same noise twice would tie the second's choice to the first's.

    Kept values have low noise words (below a quarter), so with shared noise the low 23 bits
    are still fair: what shows it is a second that is the first again. S_q twice with q = 1/2:
    apart, a quarter survives; with one stream, a half. Deviation of the share 0.0017; six.
    """
    values, place = torch.ones(1 << 16), Place(None, torch.Size([1 << 16]))
    both = Then(Kept(0.5), Kept(0.5))
    found = both.dequantize(both.quantize(values, place, BitWriter(), 5), place, 5)
    assert abs(float((found != 0).double().mean()) - 0.25) < 6 * 0.0017
    assert set(found.unique().tolist()) == {0.0, 4.0}


def test_settings_and_text() -> None:
    both = Then(Natural(8), Then(Natural(), Natural(5, 0)))
    assert text(both) == "then(cnat(8), then(cnat, cnat(5, 0)))"
    assert parse(f"topk(0.1) | {text(both)}").codec == Pipeline(TopK(0.1), both)
    assert Then(Mean(), Natural()).one_sign
    assert Then(Natural(), Mean()).one_sign
    assert not both.one_sign
    for settings in ((TopK(0.1), Natural()), (Natural(), 3)):
        with pytest.raises(ValueError, match=r"then: (first|second) is .*takes two quantizers"):
            Then(*settings)


def test_nothing_to_send() -> None:
    both = parse("topk(0.5) | then(cnat, cnat(8)) | golomb")
    packet, _ = compress(both, {"w": torch.zeros(10)})
    assert packet.spans == {"header": 32, "positions": 0, "values": 0, "side": 0}

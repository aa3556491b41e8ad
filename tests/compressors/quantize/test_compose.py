"""One quantizer on top of another: what travels, and Theorem 5."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors import BitWriter, Then, compress, decompress, parse
from compressors.kernels.noise import words
from compressors.parts import Place, Symbols
from tests.support.generators import whole_numbers


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


def test_only_the_second_has_side_information_and_either_may_need_the_seed() -> None:
    update = {"w": whole_numbers(40, 1) / 3}
    assert compress(parse("then(dither(15), cnat)"), update)[0].spans["side"] == 0
    for text in ("then(cnat, lattice(2))", "then(lattice(2), cnat)"):
        packet, _ = compress(parse(text), update, seed=5)
        got = decompress(parse(text), packet.payload, update)
        assert torch.equal(got["w"], packet.sent["w"].decoded)
    assert parse("then(cnat, lattice(2))").needs_seed

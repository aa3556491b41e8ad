"""Codecs that bound each entry's error: SZ's predictor, and INCEPTIONN's cut floats."""

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import BitReader, PayloadError, compress, decompress, parse
from tests.support.generators import same_bits

HUGE = torch.finfo(torch.float32).max


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def slowly(x: np.ndarray, bound: float) -> np.ndarray:
    """Left plus upper minus upper left of what is decoded, then steps of twice the bound."""
    done = np.zeros((x.shape[0] + 1, x.shape[1] + 1), np.float32)
    for i in range(1, done.shape[0]):
        for j in range(1, done.shape[1]):
            left, upper, corner = (float(done[a]) for a in ((i, j - 1), (i - 1, j), (i - 1, j - 1)))
            guess, value = left + upper - corner, float(x[i - 1, j - 1])
            near = np.float32(guess + 2 * bound * np.rint((value - guess) / (2 * bound)))
            done[i, j] = near if abs(float(near) - value) <= bound else value
    return done[1:, 1:]


@pytest.mark.parametrize("shape", [(30, 20), (1, 50), (7, 1), (500,), (4, 5, 6)])
@pytest.mark.parametrize("bound", [0.3, 0.01, 1e-6])
def test_sz_is_the_slow_predictor_and_keeps_its_bound(shape: tuple[int, ...], bound: float) -> None:
    x = normal(*shape)
    got = compress(parse(f"sz({bound})"), {"w": x})[0].sent["w"].decoded
    limit = bound * (float(x.max()) - float(x.min()))
    assert float((got.double() - x.double()).abs().max()) <= limit
    flat = x.reshape(shape[0], -1) if len(shape) > 1 else x.reshape(1, -1)
    exact = np.float32(limit)
    exact = exact if float(exact) <= limit else np.nextafter(exact, np.float32(0))
    if bound > 1e-3:  # below, float32 has no number within some bounds
        assert np.array_equal(slowly(flat.numpy(), float(exact)), got.reshape(flat.shape).numpy())


def test_sz_of_smooth_and_of_odd_tensors() -> None:
    smooth = {"w": torch.outer(torch.linspace(0, 1, 100), torch.linspace(1, 2, 100))}
    packet, _ = compress(parse("sz(0.001)"), smooth)
    rough, _ = compress(parse("sz(0.001)"), {"w": normal(100, 100)})
    assert 5 * packet.spans["values"] < rough.spans["values"]
    for x in (torch.full((5,), 3.0), torch.zeros(4), torch.tensor([HUGE, -HUGE, 0, 1e-45])):
        got = compress(parse("sz(0.2)"), {"w": x})[0].sent["w"].decoded
        limit = 0.2 * (float(x.max()) - float(x.min()))
        assert float((got.double() - x.double()).abs().max()) <= limit
    with pytest.raises(PayloadError, match="sz: the bound -1 is none"):
        parse("sz(0.2)").codec.read(BitReader(bytes.fromhex("bf800000" + "00" * 9)), x, 0)


def cut(value: float, b: int) -> tuple[float, int]:
    """What arrives of one entry, and its bits without the tag."""
    size, step = abs(value), max(b, 7)
    if size >= 1:
        return value, 32
    if size < 2.0**-b:
        return 0.0, 0
    bits, used = (step, 8) if size * 2**step < 2**7 else (15, 16)
    return float(np.copysign(int(size * 2**bits) / 2**bits, value)), used


@pytest.mark.parametrize("b", [1, 6, 7, 8, 10, 15])
def test_inceptionn_entry_by_entry(b: int) -> None:
    many = normal(300) * 2.0 ** torch.arange(300.0).remainder(20).sub(17)
    ends = torch.tensor([0.0, 1.0, -1.0, 2.0**-b, 2.0 ** (7 - max(b, 7)), HUGE])
    x = torch.cat((many, ends))
    packet, _ = compress(parse(f"inceptionn({b})"), {"w": x})
    wanted = [cut(float(value), b) for value in x]
    got = packet.sent["w"].decoded
    assert got.tolist() == [value for value, _ in wanted]
    assert packet.spans["values"] == sum(2 + used for _, used in wanted)
    assert float((got - x).abs().max()) < 2.0**-b
    back = decompress(parse(f"inceptionn({b})"), packet.payload, {"w": x})
    assert same_bits(back, {"w": got})


@pytest.mark.parametrize("bad", ["sz(0)", "sz(0.5)", "sz(true)", "inceptionn(0)", "inceptionn(16)"])
def test_bad_settings(bad: str) -> None:
    with pytest.raises(ValueError, match="(sz: bound|inceptionn: b) is"):
        parse(bad)

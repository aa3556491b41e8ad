"""Small floats with a power of two per block, beside torch's own eight bits and by hand."""

import pytest
import torch
from torch import Tensor

from compressors import compress, decompress, parse
from compressors.quantize.blockfloat import FORMATS

TORCHS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def normal(n: int, seed: int = 1) -> Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def sent(method: str, x: Tensor, seed: int = 0) -> Tensor:
    packet, _ = compress(parse(method), {"w": x}, seed=seed)
    assert torch.equal(
        decompress(parse(method), packet.payload, {"w": x})["w"], packet.sent["w"].decoded
    )
    return packet.sent["w"].decoded


def codes_of(payload: bytes, count: int) -> list[int]:
    """The last 4-bit symbols of a message of whole bytes."""
    digits = payload.hex()[-count:]
    return [int(digit, 16) for digit in digits]


def scale_of(part: Tensor, format: str) -> float:
    """The least power of two at which the block's largest magnitude is within the format."""
    s = -112
    while float(part.abs().max().double()) > FORMATS[format].largest * 2.0**s:
        s += 1
    return 2.0**s


@pytest.mark.parametrize("format", TORCHS)
@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e30])
def test_the_nearest_is_torchs_own(format: str, size: float) -> None:
    x = normal(3000).pow(5) * size
    found = sent(f"fp8({format}, nearest)", x)
    for part, got in zip(x.split(32), found.split(32), strict=True):
        scale = scale_of(part, format)
        wanted = (part / scale).to(TORCHS[format]).float() * scale
        assert torch.equal(got, wanted + 0.0)


def test_fp4_by_hand() -> None:
    """Largest 5: scale 1. Of numbers 0, .5, 1, 1.5, 2, 3, 4, 6 ties go to the even one."""
    x = torch.tensor([5.0, -0.25, 0.75, 1.25, 2.5, -3.5, 0.2, -0.0])
    assert sent("fp4(nearest)", x).tolist() == [4.0, 0.0, 1.0, 1.0, 2.0, -4.0, 0.0, 0.0]
    packet, _ = compress(parse("fp4(nearest)"), {"w": x})
    assert packet.spans["side"] == 8 and packet.spans["values"] == 4 * 8


def test_e3m0_by_hand() -> None:
    """Largest 12: scale 1. Of 16, 8, 4, 2, 1, 1/2, 1/4 and 0 ties go to the larger, of 1/8 to 0."""
    x = torch.tensor([12.0, -11.5, 6.0, -3.1, 0.37, 0.125, -0.13, 0.0])
    wanted = [16.0, -8.0, 8.0, -4.0, 0.25, 0.0, -0.25, 0.0]
    assert sent("fp4_e3m0(nearest)", x).tolist() == wanted
    packet, _ = compress(parse("fp4_e3m0(nearest)"), {"w": x})
    assert packet.spans["side"] == 8 and packet.spans["values"] == 4 * 8
    # a sign, then 7 for 16, 6 for 8 and so on down to 1 for 1/4
    assert codes_of(packet.payload, 8) == [0b0111, 0b1110, 0b0110, 0b1101, 0b0001, 0, 0b1001, 0]
    draws = torch.stack([sent("fp4_e3m0", torch.tensor([16.0, 3.0, -0.1]), s) for s in range(400)])
    assert {*draws[:, 1].tolist()} == {2.0, 4.0} and {*draws[:, 2].tolist()} == {0.0, -0.25}


def test_the_ends_of_float32() -> None:
    huge = torch.finfo(torch.float32).max
    for format in FORMATS:
        for rounding in ("nearest", "random"):
            x = torch.tensor([huge, -huge, 1e-45, 0.0])
            got = sent(f"mx({format}, 4, {rounding})", x)
            assert bool(torch.isfinite(got).all()) and got[2:].tolist() == [0.0, 0.0]
            # the powers of two of e3m0 end at 2^127, half of 2^128
            assert got[:2].tolist() == pytest.approx([huge, -huge], rel=0.5)
            assert bool(torch.isfinite(sent(f"mx({format}, 1, {rounding})", x)).all())

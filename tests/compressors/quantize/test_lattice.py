"""UVeQFed's lattice: the nearest point by search, an error that does not know the values."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import PayloadError, compress, decompress, parse
from compressors.bits import BitReader, BitWriter
from compressors.kernels import lattice as kernel
from compressors.parts import Place
from compressors.quantize.lattice import Lattice


def draw(kind: str, n: int) -> Tensor:
    generator = torch.Generator().manual_seed(n)
    normal = torch.randn(n, generator=generator)
    return {
        "normal": normal,
        "heavy": normal.pow(5),
        "one": torch.eye(1, n)[0],
        "equal": torch.full((n,), 3.0),
    }[kind]


def sent(method: str, x: Tensor, seed: int = 0) -> Tensor:
    packet, _ = compress(parse(method), {"w": x}, seed=seed)
    arrived = decompress(parse(method), packet.payload, {"w": x})["w"]
    assert torch.equal(arrived, packet.sent["w"].decoded)
    return arrived


def test_the_point_is_the_nearest_of_all() -> None:
    """Beside a search over every point around, in lengths as they are."""
    rng = np.random.default_rng(1)
    rows, places = np.meshgrid(np.arange(-8, 9), np.arange(-8, 9))
    for u, v in rng.uniform(-4, 4, (400, 2)):
        m, j, half = kernel._point(u, v)
        assert half == (0.5 if j % 2 else 0.0)
        across = u - (places + 0.5 * (rows % 2))
        down = (v - rows) * math.sqrt(3) / 2
        nearest = np.sqrt(across**2 + down**2).min()
        mine = math.hypot(u - (m + half), (v - j) * math.sqrt(3) / 2)
        assert mine == pytest.approx(nearest, abs=1e-12)
        assert mine <= 1 / math.sqrt(3) + 1e-12  # the corner of a cell


def test_the_error_of_a_pair_fills_a_hexagon() -> None:
    x = draw("normal", 20000)
    pairs = (sent("uveqfed(3)", x) - x).double().view(-1, 2).numpy()
    across = Lattice(3)._steps(np.float32(x.double().square().mean().sqrt()))[0]
    u, v = np.abs(pairs / across).T
    assert u.max() <= 0.5 + 1e-5 and (u / 2 + v * math.sqrt(3) / 2).max() <= 0.5 + 1e-5
    assert u.max() > 0.49 and v.max() > 0.55  # its sides and its corners
    square = 5 / (36 * math.sqrt(3)) * math.sqrt(3) / 2
    assert (u**2 + v**2).mean() / 2 == pytest.approx(square, rel=0.02)


def test_bits_of_normal_values() -> None:
    """Entropy-coded, R bits and a hexagon's loss: 0.229 bit above the rate of normal values."""
    x = draw("normal", 100_000)
    for bits in (2, 3, 4):
        packet, _ = compress(parse(f"uveqfed({bits})"), {"w": x})
        per_entry = 8 * len(packet.payload) / x.numel()
        assert bits < per_entry < bits + 0.18
        error = float((packet.sent["w"].decoded - x).square().sum() / x.square().sum())
        assert per_entry - math.log2(1 / error) / 2 < 0.42


def test_a_hostile_side_is_refused() -> None:
    for scale, top in ((math.nan, 3), (-1.0, 3), (math.inf, 3), (1.0, 1 << 31)):
        out = BitWriter()
        out.float32s(np.array([scale], np.float32))
        out.uint(top, 32)
        with pytest.raises(PayloadError, match="lattice"):
            Lattice(2).read_side(BitReader(out.to_bytes()), Place(None, torch.Size([2])))

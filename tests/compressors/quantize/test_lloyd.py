"""Levels for normal values, a scale per block: DRIVE and EDEN, with their papers' numbers."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import compress, parse, text
from compressors.bounds import bound
from compressors.kernels import noise
from compressors.kernels.bins import LEVELS
from compressors.kernels.hadamard import block_sizes, rotate
from compressors.quantize.lloyd import lloyd_spread

PRINTED = {1: 0.571, 2: 0.133, 3: 0.0358, 4: 0.0096}  # the unbiased error of large vectors, by bits
BITS = tuple(PRINTED)


def density(t: float) -> float:
    return math.exp(-t * t / 2) / math.sqrt(2 * math.pi)


def below(t: float) -> float:
    return (1 + math.erf(t / math.sqrt(2))) / 2


def cells(bits: int) -> list[tuple[float, float, float]]:
    """Of each level above zero: where its cell starts, where it ends, and its chance."""
    levels = LEVELS[bits]
    edges = [0.0, *((a + b) / 2 for a, b in zip(levels, levels[1:], strict=False)), 40.0]
    return [(a, b, below(b) - below(a)) for a, b in zip(edges, edges[1:], strict=False)]


@pytest.mark.parametrize("bits", BITS)
def test_levels_are_the_means_of_their_cells(bits: int) -> None:
    """Lloyd's and Max's condition for the least error of a standard normal value."""
    for level, (low, high, chance) in zip(LEVELS[bits], cells(bits), strict=True):
        assert math.isclose(level, (density(low) - density(high)) / chance, abs_tol=1e-9)


@pytest.mark.parametrize("bits", BITS)
def test_the_papers_errors_follow_from_the_levels(bits: int) -> None:
    """D of least error, D / (1 - D) unbiased: pi / 2 - 1 and 1 - 2 / pi for one bit."""
    kept = sum(2 * c * c * cell[2] for c, cell in zip(LEVELS[bits], cells(bits), strict=True))
    least = 1 - kept
    assert least / (1 - least) == pytest.approx(PRINTED[bits], abs=5e-4)
    if bits == 1:
        assert least == pytest.approx(1 - 2 / math.pi)
        assert least / (1 - least) == pytest.approx(math.pi / 2 - 1)


def heavy(n: int) -> Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(3)) ** 3


def slowly(x: np.ndarray, bits: int, scale: str, seed: int) -> np.ndarray:
    """Algorithm 1 of the papers on each block, in float64, with the rotation as a matrix."""
    out, start = np.empty(x.size), 0
    for size in block_sizes(x.size):
        hadamard = np.ones((1, 1))
        while len(hadamard) < size:
            hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
        signs = np.where(noise.words(seed, np.arange(start, start + size)) >= 1 << 31, -1.0, 1.0)
        turn = hadamard * signs / math.sqrt(size)
        y = turn @ x[start : start + size]
        both = np.array([-c for c in LEVELS[bits][::-1]] + list(LEVELS[bits]))
        unit = y * math.sqrt(size) / np.linalg.norm(y)
        near = both[np.abs(unit[:, None] - both).argmin(1)]
        factor = y @ y / (y @ near) if scale == "unbiased" else y @ near / (near @ near)
        out[start : start + size] = turn.T @ (factor * near)
        start += size
    return out


@pytest.mark.parametrize("scale", ["unbiased", "least"])
@pytest.mark.parametrize("bits", BITS)
def test_it_is_algorithm_1(bits: int, scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 = 256 + 32 + 8 + 4 entries; the rotation's seed is the one that the codec draws."""
    seeds = []

    def watched(x: Tensor, seed: int, back: bool = False) -> Tensor:
        seeds.append(seed)
        return rotate(x, seed, back)

    monkeypatch.setattr("compressors.whole.rotate.rotate", watched)
    x = heavy(300)
    sent = compress(parse(f"eden({bits}, {scale})"), {"w": x}, seed=2)[0].sent["w"].decoded
    slow = slowly(x.double().numpy(), bits, scale, seeds[0])
    assert np.abs(sent.numpy() - slow).max() < 1e-5 * float(x.abs().max())


def test_the_least_scale_is_orthogonal_and_within_its_bound() -> None:
    spread = [lloyd_spread(bits) for bits in BITS]
    assert spread[0] == 1 and spread == sorted(spread, reverse=True)
    for x in (heavy(500), torch.tensor([1.0] + [0.0] * 63), torch.ones(64), torch.eye(8)[0] * 3):
        for bits in BITS:
            found, plain = [], parse(f"lloyd({bits}, least)")
            sent = compress(plain, {"w": x})[0].sent["w"].decoded.double()
            assert float((x - sent) @ sent) == pytest.approx(0, abs=1e-5 * float(x @ x))
            assert float((x - sent) @ (x - sent)) <= (1 - bound(plain, 500).delta) * float(x @ x)
            for seed in range(20):
                method = parse(f"eden({bits}, least)")
                error = compress(method, {"w": x}, seed=seed)[0].sent["w"].decoded - x
                found.append(float(error @ error / (x @ x)))
            assert np.mean(found) <= 1 - bound(method, x.numel()).delta + 1e-6


def test_names_and_settings() -> None:
    assert text(parse("drive(least)")) == "per_tensor(rotate(lloyd(1, 'least')))"
    assert parse("drive()") == parse("eden(1)") == parse("rotate(lloyd(1))")
    for bad in ("lloyd(0)", "lloyd(5)", "eden(5)", "drive(none)", "lloyd(1, 'most')"):
        with pytest.raises(ValueError, match="lloyd: (bits|scale) is"):
            parse(bad)

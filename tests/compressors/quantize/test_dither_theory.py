"""Dithering against its theory: means, variances, Theorems 7 and 8 of Horváth et al. 2022."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import Dither, compress, parse
from compressors.quantize.dither import rounded
from compressors.quantize.levels import bucket_norms, level_codes, values_of


def gaussian(k: int, seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(k).astype(np.float32))


def levels_of(s: int, kind: str) -> np.ndarray:
    if kind == "standard":
        return np.arange(s + 1) / s
    return np.concatenate([[0.0], 2.0 ** np.arange(1.0 - s, 1.0)])


def variance(x: np.ndarray, s: int, kind: str, p: float) -> float:
    """E ||D(x) - x||^2 / ||x||_2^2 in closed form: (b - t)(t - a) norm^2 between levels a and b."""
    norm = float(np.linalg.norm(x, p))
    t = np.minimum(np.abs(x) / norm, 1.0)
    levels = levels_of(s, kind)
    above = np.clip(np.searchsorted(levels, t, side="right"), 1, s)
    a, b = levels[above - 1], levels[above]
    return float(((b - t) * (t - a)).sum() * norm**2 / (x**2).sum())


def draws(coder: Dither, x: Tensor, seeds: range) -> np.ndarray:
    """What arrives under each seed (seeds, k), in float64; the norm is that of one bucket."""
    norms = bucket_norms(x, str(coder.norm), x.numel())
    natural = coder.kind == "natural"
    rows = []
    for seed in seeds:
        codes = level_codes(x, norms, x.numel(), coder.levels, natural, seed)
        rows.append(values_of(codes, norms, x.numel(), coder.levels, natural).numpy())
    return np.array(rows, np.float64)


CODERS = [
    Dither(1, "inf"),
    Dither(3, "2"),
    Dither(5, "1"),
    Dither(100, "2"),
    Dither(1, "2", "natural"),
    Dither(4, "inf", "natural"),
    Dither(8, "2", "natural"),
    Dither(30, "1", "natural"),
]


@pytest.mark.parametrize("coder", CODERS, ids=str)
def test_the_mean_is_the_value_and_the_variance_is_the_closed_form(coder: Dither) -> None:
    """200 seeds of 1000 values; 5 standard errors each.

    The mean of z = sum((D - x) g) for a fixed g tests all entries at once; the closed form is
    the exact expectation of ||D - x||^2, whose standard error is that of the 200 draws.
    """
    x = gaussian(1000, 3)
    got = draws(coder, x, range(200))
    error = got - x.numpy()
    for weights in (np.sign(x.numpy()), np.ones(1000), gaussian(1000, 4).numpy()):
        z = error @ weights
        assert abs(z.mean()) < 5 * z.std() / math.sqrt(200)
    squares = (error**2).sum(1) / float((x.double() ** 2).sum())
    expected = variance(x.numpy().astype(np.float64), coder.levels, coder.kind, float(coder.norm))
    assert abs(squares.mean() - expected) < 5 * squares.std() / math.sqrt(200)


@pytest.mark.parametrize("kind", ["standard", "natural"])
def test_the_mean_of_a_value_far_below_the_lowest_level(kind: str) -> None:
    """A chance of 1e-4: 4e6 equal values, mean within 5 standard errors (0.05 relative)."""
    k, ratio = 4_000_000, 1e-4
    x = torch.full((k,), ratio)
    codes = level_codes(x, np.ones(1, np.float32), k, 1, kind == "natural", 12)
    share = float((codes == 2).float().mean())
    assert int(codes.max()) == 2 and not bool((codes == 1).any())
    assert abs(share - ratio) < 5 * math.sqrt(ratio / k)


def test_a_compressed_norm_is_right_in_the_mean() -> None:
    """E C_nat(norm) = norm over 4e5 equal norms, 5 standard errors; saturation and denormals.

    1.5 goes to 1 or 2 with even chance: standard error 0.5 / sqrt(4e5) = 0.0008.
    """
    norms = np.full(400_000, 1.5, np.float32)
    found = rounded(norms, 3)
    assert set(found.tolist()) == {1.0, 2.0}
    assert abs(found.mean(dtype=np.float64) - 1.5) < 5 * 0.5 / math.sqrt(norms.size)
    top = np.float32([0.0, 3.4e38, 2.0**127, 2.0**-126, 8.0])
    assert rounded(top, 3).tolist() == [0.0, 2.0**127, 2.0**127, 2.0**-126, 8.0]
    tiny = np.full(100_000, 2.0**-128, np.float32)  # a quarter of the smallest normal number
    found = rounded(tiny, 4)
    assert set(found.tolist()) == {0.0, 2.0**-126}
    assert abs((found > 0).mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / tiny.size)


def test_norm_and_symbols_draw_apart() -> None:
    """Unbiased as a product only if independent: 3000 messages, mean within 5 standard errors.

    The norm is 1.5 and the first ratio 0.75: coins at even odds. One coin for both would give
    (0.5 + 2) / 2 = 1.25 for 1.125, nine standard errors.
    """
    x = {"w": torch.tensor([1.125, 63**0.5 / 8])}
    method = parse("dither(2, 2, natural, norm_code=cnat)")
    found = np.array(
        [
            compress(method, x, seed=seed)[0].sent["w"].decoded.double().numpy()
            for seed in range(3000)
        ]
    )
    gap = np.abs(found.mean(0) - x["w"].numpy())
    assert (gap < 5 * found.std(0) / math.sqrt(3000)).all()

"""Extremes and sums of many segments, and of buckets in them, as the compiled loops have them."""

import numpy as np
import pytest

from compressors.kernels import dither
from compressors.kernels.gpu.entries import ENTRIES, Entries, buckets_of
from compressors.kernels.gpu.measure import MAGNITUDES, SQUARES, about_mean, measure
from tests.support.gpu import DEVICE, joined, needs_triton, there

pytestmark = needs_triton
RNG = np.random.default_rng(11)
TINY = np.float32(1e-45)


def normal(n: int) -> np.ndarray:
    return RNG.normal(size=n).astype(np.float32)


INPUTS = {
    "nothing, one entry and few": [normal(0), normal(1), normal(5), normal(4)],
    "zeros and all equal": [np.zeros(9), np.full(7, -2.5), np.append(np.zeros(3), 3.0)],
    "subnormals": [RNG.integers(-9, 10, 30) * TINY],
    "around a program's edge": [normal(ENTRIES - 1), normal(ENTRIES + 1), normal(ENTRIES)],
    "sizes by chance": [normal(n) for n in RNG.integers(0, 300, 4)],
}


def entries_of(parts: list[np.ndarray]) -> tuple[Entries, list[np.ndarray]]:
    parts = [np.ascontiguousarray(part, np.float32) for part in parts]
    flat, layout = joined(parts)
    starts = layout.tables[3]
    return Entries(flat, starts, None, starts, layout.tables[2], starts, layout.sizes), parts


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("size", [3, 1500, 5000])
def test_buckets(name: str, size: int) -> None:
    entries, parts = entries_of(INPUTS[name] if size > 3 else [x[:40] for x in INPUTS[name]])
    buckets = buckets_of(entries.capacities, size, DEVICE)
    for what, power in ((MAGNITUDES, 1), (SQUARES, 2)):
        tops, edges, sums = measure(buckets.cut(entries), what, buckets.layout)
        largest = np.concatenate([dither.bucket_sums(x, size, 0) for x in parts])
        expected = np.concatenate([dither.bucket_sums(x, size, power) for x in parts])
        assert tops.cpu().numpy().view(np.float32).tolist() == largest.tolist()
        np.testing.assert_allclose(sums.cpu().numpy(), expected, rtol=1e-12)
        assert edges.numel() == len(expected)


@pytest.mark.parametrize("name", INPUTS)
def test_squares_about_the_mean(name: str) -> None:
    entries, parts = entries_of(INPUTS[name])
    tops, spreads = about_mean(entries)
    for x, top, found in zip(parts, tops.cpu().numpy(), spreads.cpu().numpy(), strict=True):
        if x.size:
            scale = float(np.abs(x).max()) ** 2
            assert found / x.size == pytest.approx(dither.variance(x), rel=1e-12, abs=1e-30 * scale)
            assert top.view(np.float32) == np.abs(x).max()


def test_buckets_of_what_was_chosen() -> None:
    """Fewer than there is room for: a bucket may be short, or empty."""
    flat, layout = joined([normal(50), normal(30)])
    chosen, origins, found, outs = there([1, 4, 9, 20, -1, 7, 8, 9, -1], [0, 5], [4, 3], [0, 5])
    entries = Entries(flat, layout.tables[3], chosen, origins, found, outs, (5, 4))
    buckets = buckets_of((5, 4), 2, DEVICE)
    sums = measure(buckets.cut(entries), MAGNITUDES, buckets.layout)[2].cpu().tolist()
    x = flat.cpu().double().abs()
    expected = [x[1] + x[4], x[9] + x[20], 0.0, x[57] + x[58], x[59]]
    assert sums == pytest.approx([float(one) for one in expected], rel=1e-12)
    assert buckets.counts(np.array([4, 3])).tolist() == [2, 2, 0, 2, 1]


@pytest.mark.slow
def test_two_hundred_tensors_in_buckets() -> None:
    entries, parts = entries_of([normal(n) for n in RNG.integers(1, 40, 200)])
    buckets = buckets_of(entries.capacities, 16, DEVICE)
    sums = measure(buckets.cut(entries), SQUARES, buckets.layout)[2].cpu().numpy()
    expected = np.concatenate([dither.bucket_sums(x, 16, 2) for x in parts])
    np.testing.assert_allclose(sums, expected, rtol=1e-12)

"""The papers' numbers, computed a second way or compared with what is printed."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from compressors.bounds import natural_omega, standard_omega
from compressors.coders.golomb import golomb_parameter, rice_parameter
from fedsim.measure.theory import (
    deepreduce,
    dithering,
    positions,
    sbc,
    speedups,
)

SHARES = (0.6, 0.4, 0.1, 0.05, 0.02, 0.01, 0.001, 1e-4)


def summed(p: float, length: Callable[[np.ndarray], np.ndarray]) -> float:
    """The mean code length of a geometric gap, term by term."""
    gaps = np.arange(int(60 / p))
    return float((p * (1 - p) ** gaps * length(gaps)).sum())


@pytest.mark.parametrize("p", SHARES)
def test_position_bits_term_by_term(p: float) -> None:
    b = rice_parameter(p)
    assert positions.ideal_position_bits(p) == pytest.approx(summed(p, lambda g: (g >> b) + 1 + b))
    assert positions.rice_bits(p, b + 1) == pytest.approx(summed(p, lambda g: (g >> b + 1) + b + 2))

    def truncated(m: int) -> Callable[[np.ndarray], np.ndarray]:
        c = (m - 1).bit_length()
        return lambda g: g // m + 1 + c - (g % m < (1 << c) - m)

    m = golomb_parameter(p)
    best = positions.golomb_bits(p, m)
    assert best == pytest.approx(summed(p, truncated(m)))
    entropy = -sum(q * math.log2(q) for q in (p, 1 - p)) / p
    assert positions.entropy_bits(p) == pytest.approx(entropy)
    assert entropy <= best <= positions.ideal_position_bits(p) + 1e-12
    near = range(max(1, m - 3), m + 4)
    assert best == pytest.approx(min(positions.golomb_bits(p, other) for other in near))


def test_position_bits_at_the_edges() -> None:
    assert positions.ideal_position_bits(1.0) == positions.entropy_bits(1.0) == 0
    assert positions.ideal_position_bits(3e-16) == pytest.approx(53.036, abs=5e-4)
    assert positions.ideal_position_bits(1e-17) == pytest.approx(57.947, abs=5e-4)
    assert [positions.golomb_bits(1.0, m) for m in (1, 2, 3, 4)] == [1, 2, 2, 3]
    for bad in (0, 1.5, -0.1):
        with pytest.raises(ValueError, match="fraction"):
            positions.entropy_bits(bad)
    with pytest.raises(ValueError, match="m is 0"):
        positions.golomb_bits(0.1, 0)


def test_sbc_table_i() -> None:
    rows = {row["method"]: row["compression"] for row in sbc.table_i()}
    assert rows["gradient dropping, DGC"] == pytest.approx([32e3 / 48])
    assert rows["dense quantization (signSGD, TernGrad, QSGD)"] == [4, 32]
    assert rows["Federated Averaging"] == pytest.approx([10, 1000])
    found = [round(rows[f"SBC ({i})"][0]) for i in (1, 2, 3)]
    assert found == [2784, 3947, 39468]


def test_table_1_of_natural_compression() -> None:
    rows = {row.approach: row for row in speedups.table1()}
    for name, low, high in (
        ("cnat", 3.160, 3.556),
        ("S_q", 0.605, 6.046),
        ("cnat after S_q", 0.950, 10.691),
    ):
        assert (rows[name].low, rows[name].high) == pytest.approx((low, high), abs=5e-4)
    top = rows["D_sta, 2^(s-1) levels"].high
    assert 15.9 < top < 16 and top == pytest.approx(32e6 / (31 + 2e6))
    width = [speedups.standard_bits(1000, s) - 31 for s in (1, 2, 5)]
    assert width == [2000, 3000, 6000]  # a sign, and s bits for 2^(s-1) levels and zero
    assert rows["D_nat, s levels"].high == top
    assert rows["D_nat, s levels"].low > rows["D_sta, 2^(s-1) levels"].low


@pytest.mark.parametrize("norm", [1, 2, 3, math.inf])
@pytest.mark.parametrize("s", [1, 2, 4, 7])
def test_theorem_7_is_never_exceeded(norm: float, s: int) -> None:
    rng = np.random.default_rng(11)
    for d in (1, 2, 17, 300):
        for x in (rng.normal(size=d), rng.standard_t(1.2, size=d), np.ones(d), np.eye(d)[0]):
            exact = dithering.relative_variance(x, dithering.natural_levels(s), norm)
            assert exact <= natural_omega(d, s, norm) * (1 + 1e-12)
            even = dithering.relative_variance(x, dithering.standard_levels(s), norm)
            assert even <= standard_omega(d, s, norm) * (1 + 1e-12)


def test_exact_variances_agree_with_the_reference_numbers() -> None:
    levels = dithering.natural_levels
    assert dithering.equal_entries_variance(1000, levels(4)) == pytest.approx(2.9528, abs=5e-5)
    for d, s in ((50, 3), (7, 2)):
        same = dithering.relative_variance(np.ones(d), levels(s))
        assert dithering.equal_entries_variance(d, levels(s)) == pytest.approx(same)
    assert natural_omega(1000, 4) == pytest.approx(4.0778, abs=5e-5)
    assert natural_omega(10**6, 8) == 7.9375
    assert natural_omega(100, 8) == pytest.approx(0.125 + (10 / 128) ** 2)
    assert natural_omega(100, 3, norm=1) == pytest.approx(0.125 + 25)


def test_theorem_8_on_normal_entries() -> None:
    """The ratios measured for d = 100,000: standard with u = s over natural."""
    d = 10**5
    for s, ratio in ((4, 2.033), (6, 5.963), (8, 30.75), (10, 225)):
        natural = dithering.gaussian_variance(d, dithering.natural_levels(s))
        even = dithering.gaussian_variance(d, dithering.standard_levels(s))
        assert even / natural == pytest.approx(ratio, rel=0.01)
        many = dithering.gaussian_variance(d, dithering.standard_levels(2 ** (s - 1)))
        assert natural / many == pytest.approx(1.69 if s == 10 else 1, rel=0.01)
    x = np.random.default_rng(0).normal(size=20_000)
    exact = dithering.relative_variance(x, dithering.natural_levels(5))
    assert dithering.gaussian_variance(20_000, dithering.natural_levels(5)) == pytest.approx(
        exact,
        rel=0.03,  # five sigmas of a mean of 20,000 magnitudes are about 2.7 %
    )


def test_bloom_filters() -> None:
    for epsilon, wanted in ((0.01, 9.585), (0.001, 14.378), (1e-4, 19.170)):
        bits, hashes = deepreduce.filter_bits(1, epsilon), deepreduce.filter_hashes(epsilon)
        assert bits == pytest.approx(wanted, abs=5e-4)
        assert (1 - math.exp(-hashes / bits)) ** hashes == pytest.approx(epsilon)  # Lemma 2
    p0 = [round(deepreduce.p0_bits_an_index(0.01, e), 1) for e in (0.001, 0.004, 0.01)]
    assert p0 == [17.5, 24.2, 41.3]
    assert deepreduce.expected_positives(100, 10_000, 0.001) / 100 == pytest.approx(1.099)
    with pytest.raises(ValueError, match="epsilon is 1"):
        deepreduce.filter_bits(1, 1)


def test_policies_by_drawing() -> None:
    """P0 and P1 on a normal vector: means over draws, within five of their sigmas."""
    rng = np.random.default_rng(4)
    d, sent, epsilon, draws = 400, 40, 0.1, 400
    g = rng.normal(size=d)
    total, p0, p1 = (g**2).sum(), [], []
    for _ in range(draws):
        support = rng.permutation(d)[:sent]  # random-r
        positive = rng.random(d) < epsilon
        positive[support] = True
        inside = np.flatnonzero(positive)
        p0.append((g[~positive] ** 2).sum() / total)
        chosen = rng.permutation(inside)[:sent]
        left = (g[inside] ** 2).sum()
        expected = deepreduce.p1_expected_error(sent, len(inside))
        p1.append(1 - (g[chosen] ** 2).sum() / left - expected)
    for found, wanted in ((p0, 1 - deepreduce.p0_delta(sent, d, epsilon)), (p1, 0.0)):
        sigma = np.std(found, ddof=1) / math.sqrt(draws)
        assert abs(np.mean(found) - wanted) <= 5 * sigma

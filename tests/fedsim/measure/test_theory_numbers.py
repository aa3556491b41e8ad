"""The papers' numbers, computed a second way or compared with what is printed."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from compressors.bounds import compose_omegas, natural_omega, standard_omega
from compressors.coders.golomb import golomb_parameter, rice_parameter
from fedsim.measure.theory import (
    convergence,
    deepreduce,
    dithering,
    huffman,
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
    rows = {row.method: row for row in sbc.table_i()}
    assert rows["gradient dropping, DGC"].least.compression == pytest.approx(32e3 / 48)
    dense = rows["dense quantization (signSGD, TernGrad, QSGD)"]
    assert (dense.largest.compression, dense.least.compression) == (4, 32)
    fedavg = rows["Federated Averaging"]
    assert fedavg.least.compression == pytest.approx(1000)
    assert fedavg.largest.compression == pytest.approx(10)
    found = [round(rows[f"SBC ({i})"].least.compression) for i in (1, 2, 3)]
    assert found == [2784, 3947, 39468]
    assert found == [
        round(sbc.ideal_compression(n, p)) for n, p in ((1, 1e-3), (10, 0.01), (100, 0.01))
    ]
    assert sbc.ideal_compression(10, 0.01) < 3958  # the CharLSTM entry of Table II


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
    assert speedups.as_printed() == pytest.approx({"D_sta": 1.8, "D_nat": 4.1}, abs=0.02)


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


def test_theorem_9() -> None:
    at = convergence.plateau(0.5, 0.25, clients=4, sigma2=2.0, zeta2=1.0)
    assert at.alpha == pytest.approx(1.25 * 1.5 * 2 / 4 + 1.25 * 0.5 * 1 / 4)
    assert at.beta == pytest.approx(1 + 0.25 + 1.25 * 0.5 / 4)
    for epsilon in (1.0, 0.1, 0.01):
        eta = convergence.step_size(epsilon, l=3.0, at=at)
        steps = convergence.iterations(epsilon, gap=7.0, l=3.0, at=at)
        assert convergence.gradient_bound(eta, steps, 7.0, 3.0, at) <= epsilon * (1 + 1e-12)
        assert convergence.gradient_bound(eta, steps / 2, 7.0, 3.0, at) > epsilon
    for clients, epsilon, end in ((1, 1e-9, 1), (10**9, 1.0, 0)):
        base = convergence.iterations(epsilon, 1, 1, convergence.plateau(0, 0, clients, 1.0))
        both = convergence.plateau(0.5, 0.25, clients, 1.0)
        slower = convergence.iterations(epsilon, 1, 1, both) / base
        assert slower == pytest.approx(convergence.slowdown_range(0.5, 0.25)[end], rel=1e-6)
    assert convergence.slowdown_range(0.5, 0.25)[1] == 1 + compose_omegas(0.5, 0.25)
    with pytest.raises(ValueError, match="eta is 2"):
        convergence.gradient_bound(2.0, 10, 1.0, 1.0, convergence.Slowdown(0.0, 1.0))


def test_bloom_filters() -> None:
    for epsilon, wanted in ((0.01, 9.585), (0.001, 14.378), (1e-4, 19.170)):
        bits, hashes = deepreduce.filter_bits(1, epsilon), deepreduce.filter_hashes(epsilon)
        assert bits == pytest.approx(wanted, abs=5e-4)
        assert deepreduce.false_positive_rate(bits, hashes, 1) == pytest.approx(epsilon)
        assert deepreduce.false_positive_rate(bits, hashes * 1.1, 1) > epsilon  # k is the best
        assert deepreduce.false_positive_rate(bits, hashes / 1.1, 1) > epsilon
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
    one, two = deepreduce.random_policy_errors(4, 2, 6, 10)
    assert (one, two) == pytest.approx((1 / 3, 1 / 2))
    assert deepreduce.deterministic_policy_error(4, 6) == pytest.approx(one)


def test_fits_stay_within_their_lemmas() -> None:
    """Lines through equal pieces of a convex curve; the greatest distance against 2 M / p^2."""
    t = np.linspace(1, 2, 20_001)
    curve, slope = 1 / t, -1 / t**2
    variation = float(np.abs(np.diff(slope)).sum())  # of the slope, over an interval of length 1
    for pieces in (2, 4, 8):
        knots = np.linspace(1, 2, pieces + 1)
        gap = np.abs(np.interp(t, knots, 1 / knots) - curve).max()
        assert gap <= deepreduce.linear_fit_error(variation, pieces)
        steps = np.quantile(curve, (np.arange(pieces) + 0.5) / pieces)
        off = np.abs(curve[:, None] - np.sort(steps)).min(1).max()
        assert off <= 2 * deepreduce.constant_fit_error(float(np.ptp(curve)), pieces - 1)
    assert deepreduce.linear_fit_distance(8.0, 4, 25) == 5 * deepreduce.linear_fit_error(8.0, 4)
    assert deepreduce.linear_fit_error(1.0, deepreduce.linear_knots(1.0)) <= 0.5


@pytest.mark.parametrize("delta", [0.1, 0.5, 1.0])
def test_lemma_11_term_by_term(delta: float) -> None:
    fit, turn, back = 0.3, 1 - 0.9, 1 - 0.8
    b = 2 - delta
    ten = 2 * b + 8 * turn * b + 32 * fit + 128 * fit * back + 32 * back * b
    eleven = 2 * b + 16 * turn * b + 32 * fit + 128 * fit * back + 64 * back * b
    moment = deepreduce.fitted_second_moment
    assert moment(delta, fit, 0.9, 0.8, biased=False) == pytest.approx(ten)
    assert moment(delta, fit, 0.9, 0.8, biased=True, printed=True) == pytest.approx(eleven)
    apart = 8 * turn * b + 16 * fit + 64 * fit * back + 32 * back * b  # equation 17
    proved = 2 * (2 * (1 - delta) + 2 * apart) + 2
    assert moment(delta, fit, 0.9, 0.8, biased=True) == pytest.approx(proved)
    assert deepreduce.sorted_distance(math.cos(1.0)) == pytest.approx(4 * math.sin(0.5) ** 2)


def test_entropies_of_run_length_codes() -> None:
    probabilities = [0.21, 0.05, 0.05, 0.2, 0.147, 0.1029, 0.07203, 0.16807]
    assert huffman.shs_entropy(0.7, [0.05, 0.05, 0.2], 5) == pytest.approx(
        huffman.entropy(probabilities)
    )
    for cap in (1, 2, 5, 30):
        capped = huffman.shs_entropy(0.6, [0.3, 0.1], cap)
        exact = capped - huffman.shs_entropy(0.6, [0.3, 0.1])
        assert huffman.shs_cap_cost(0.6, cap) == pytest.approx(exact, abs=1e-12)
        assert exact < 0
    with pytest.raises(ValueError, match="distribution"):
        huffman.entropy([0.5, 0.6])

"""Curves through sorted values: least squares as numpy's, pieces, ranks, and made-up side bits."""

import math

import numpy as np
import pytest
import torch

from compressors import BitReader, BitWriter, FitDExp, FitPoly, PayloadError, compress, parse
from compressors.kernels import curve as kernel
from compressors.parts import Place
from tests.support.generators import whole_numbers


def falling(k: int, seed: int) -> np.ndarray:
    """A sorted curve of both signs with heavy tails, as of gradients."""
    return np.sort(np.random.default_rng(seed).standard_normal(k) ** 3)[::-1].copy()


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 9])
def test_pieces_are_least_squares(degree: int) -> None:
    """Against numpy's polynomial fit (float64, QR); ours keeps coefficients in float32."""
    y = falling(500, 1)
    starts = np.array([0, 7, 20, 250, 490])
    coefs = kernel.fit_curve(y, starts, degree + 1)
    got = kernel.evaluate_curve(coefs, starts, y.size, degree + 1)
    for start, stop in zip(starts, [*starts[1:], y.size], strict=True):
        t = np.linspace(-1, 1, stop - start)
        used = min(degree, stop - start - 1)
        expected = np.polynomial.Polynomial.fit(t, y[start:stop], used)(t)
        scale = np.abs(y[start:stop]).max()
        assert np.abs(got[start:stop] - expected).max() < 2e-6 * scale


def test_a_piece_of_few_values_goes_through_them() -> None:
    """k values or fewer than degree + 1: as many coefficients, and the values themselves."""
    for k in range(1, 7):
        x = whole_numbers(k, k) / 64
        packet, _ = compress(parse("fit_poly(5, 1)"), {"w": x})
        assert torch.allclose(packet.sent["w"].decoded, x, rtol=1e-6, atol=1e-5)
        assert packet.spans["side"] == 1 + 32 * k


def plain_split(y: np.ndarray, cut: int, pieces: int, least: int) -> list[int]:
    """The rule, by a list of pieces."""
    bounds = [0, cut, y.size] if 0 < cut < y.size and pieces > 1 else [0, y.size]
    while len(bounds) - 1 < pieces:
        best = (0.0, -1)
        for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
            chord = np.linspace(y[start], y[stop - 1], stop - start)
            for i in range(start + least, stop - least + 1):
                off = float((chord[i - start] - y[i]) ** 2)
                if off > best[0] * (1 + 1e-12):
                    best = (off, i)
        if best[1] < 0:
            break
        bounds = sorted([*bounds, best[1]])
    return bounds[:-1]


@pytest.mark.parametrize("pieces", [1, 2, 3, 8, 30])
@pytest.mark.parametrize("least", [1, 4])
def test_pieces_start_farthest_from_the_chord(pieces: int, least: int) -> None:
    y = falling(120, pieces)
    cut = int(np.count_nonzero(y > 0))
    starts = kernel.split_curve(y, cut, pieces, least)
    assert starts.tolist() == plain_split(y, cut, pieces, least)
    assert pieces == 1 or cut in starts


@pytest.mark.parametrize("scale", [1e-4, 1.0, 30.0])
def test_the_heuristic_depends_on_the_scale(scale: float) -> None:
    """ceil(2 sqrt(M)) pieces at most; for values as small as gradients' that is one."""
    y = (falling(900, 2) * scale).astype(np.float32)
    m = abs(float(y[0]) - float(y[1]) - (float(y[-2]) - float(y[-1])))
    out = BitWriter()
    place = Place(None, torch.Size([900]))
    FitPoly(2, "heuristic").quantize(torch.from_numpy(y), place, out, 0)
    pieces = BitReader(out.to_bytes()).gamma()
    assert 1 <= pieces <= max(1, math.ceil(2 * math.sqrt(m)))
    assert (pieces > 1) == (scale >= 1)


def test_ranks_order_the_values_and_ties_by_place() -> None:
    x = torch.tensor([1.0, 5.0, -2.0, 5.0, 0.0])
    place = Place(None, torch.Size([5]))
    symbols = FitPoly().quantize(x, place, BitWriter(), 0)
    assert symbols.codes.tolist() == [2, 0, 4, 1, 3]
    assert symbols.alphabet == 5
    signed = FitDExp().quantize(x, place, BitWriter(), 0)
    assert signed.codes.tolist() == [6, 0, 5, 2, 8]  # 2 rank of the magnitude + (below zero)
    assert signed.alphabet == 10


@pytest.mark.parametrize(("a", "b", "c", "d"), [(4, -30, 1, -1), (1, -2, 0, 0), (3, -400, 2, -3)])
@pytest.mark.parametrize("k", [40, 1000, 5000])
def test_a_double_exponential_is_found(a: float, b: float, c: float, d: float, k: int) -> None:
    """Of exact curves less than 1 % is left: the search ends at steps of 1 % of a rate."""
    x = np.linspace(0, 1, k)
    y = a * np.exp(b * x) + c * np.exp(d * x)
    got = kernel.evaluate_exponentials(kernel.fit_exponentials(y), k)
    assert np.linalg.norm(got - y) < 0.01 * np.linalg.norm(y)


@pytest.mark.parametrize(
    ("bits", "why"),
    [
        ([(1, 1)], "ends early"),  # one piece, no coefficients
        ([(0, 3), (9, 4)], "9 pieces announced for 100 values: at most 8"),
        ([(0, 1), (2, 2), (0, 7)], "do not rise"),
        ([(0, 1), (2, 2), (100, 7)], "do not rise"),
        ([(0, 1), (3, 2), (50, 7), (50, 7)], "do not rise"),
    ],
)
def test_side_information_that_cannot_be(bits: list[tuple[int, int]], why: str) -> None:
    out = BitWriter()
    for value, width in bits:
        out.uint(value, width)
    with pytest.raises(PayloadError, match=why):
        FitPoly().read_side(BitReader(out.to_bytes()), Place(None, torch.Size([100])))


def test_few_values_of_fit_dexp_are_exact() -> None:
    for k in range(1, 5):
        x = whole_numbers(k, k) / 64
        packet, _ = compress(parse("fit_dexp"), {"w": x})
        assert torch.equal(packet.sent["w"].decoded, x)
        assert packet.spans["side"] == 32 * k
    assert compress(parse("fit_dexp"), {"w": whole_numbers(5, 1)})[0].spans["side"] == 128

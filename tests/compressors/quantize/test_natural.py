"""Natural compression against Definition 1, exactly where all of its noise can be run through."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import Natural, text
from compressors.bits import BitWriter
from compressors.kernels import noise
from compressors.parts import Place, code_dtype
from tests.support.generators import bits_of
from tests.support.slowtwins import codes_torch, decode_torch, powers_torch

EVERY_U = np.arange(1 << 23, dtype=np.uint32)
SETTINGS = [
    Natural(),
    Natural(rounding="nearest"),
    Natural(8),
    Natural(8, 0),
    Natural(8, 127),
    Natural(8, 3, "nearest"),
    Natural(5, 0),
    Natural(5, -112),
    Natural(5, -112, "nearest"),
    Natural(3, 2),
    Natural(2, 0),
    Natural(2, -1, "nearest"),
]
every_setting = pytest.mark.parametrize("settings", SETTINGS, ids=text)


def all_kinds() -> Tensor:
    """Finite numbers of every exponent and both signs; powers, their neighbours, denormals."""
    drawn = noise.words(11, np.arange(20_000))
    powers = np.arange(255, dtype=np.uint32) << np.uint32(23)
    near = [powers, powers + np.uint32(1), powers | np.uint32(0x400000), powers[1:] - np.uint32(1)]
    bits = np.concatenate([drawn, *near, np.array([1, 5, 0x7FFFFF, 0x7F7FFFFF], np.uint32)])
    bits = np.concatenate([bits, bits | np.uint32(0x80000000)])
    finite = bits[(bits & 0x7F800000) != 0x7F800000]
    return torch.from_numpy(finite.view(np.float32))


def codes_of(settings: Natural, values: Tensor, seed: int) -> Tensor:
    out = BitWriter()
    symbols = settings.quantize(values, Place(None, values.shape), out, seed)
    assert out.position == 0
    assert symbols.alphabet == 1 << settings.bits
    assert symbols.codes.dtype == code_dtype(symbols.alphabet)
    return symbols.codes


def rounded(settings: Natural, values: Tensor, seed: int) -> Tensor:
    return settings.decode(codes_of(settings, values, seed))


def power_below(size: Fraction) -> Fraction:
    """The greatest power of two that is not above ``size`` > 0."""
    guess = Fraction(2) ** (size.numerator.bit_length() - size.denominator.bit_length())
    return guess if guess <= size else guess / 2


def by_definition(settings: Natural, value: float, word: int) -> float:
    """One value by the definition, in fractions; ``word`` is its 32 bits of noise."""
    size, sign = abs(Fraction(value)), math.copysign(1.0, value)
    low, high = Fraction(2) ** settings.lowest, Fraction(2) ** settings.highest
    nearest = settings.rounding == "nearest"
    if size == 0:
        return sign * 0.0
    if size < low:
        whole = settings.lowest == -126  # float32's denormals: the carry
        share = Fraction(word & 0x7FFFFF, 1 << 23) if whole else Fraction(2 * word + 1, 1 << 33)
        up = (
            size / low >= Fraction(1, 2)
            if nearest
            else (size / low + share >= 1 if whole else share < size / low)
        )
        return sign * float(low) if up else sign * 0.0
    lower = power_below(size)
    part = size / lower - 1
    share = Fraction(1, 2) if nearest else Fraction(word & 0x7FFFFF, 1 << 23)
    return sign * float(min(high, lower * 2 if part + share >= 1 else lower))


@every_setting
def test_every_value_by_the_definition(settings: Natural) -> None:
    values = all_kinds()[::7]
    words = noise.words(5, np.arange(values.numel())).tolist()
    wanted = [by_definition(settings, v, w) for v, w in zip(values.tolist(), words, strict=True)]
    found = rounded(settings, values, seed=5)
    assert np.array_equal(bits_of(found), bits_of(torch.tensor(wanted)))


@every_setting
def test_compiled_and_torch_agree(settings: Natural) -> None:
    """Same codes and same numbers, whichever way they are made."""
    values = all_kinds()
    codes = codes_of(settings, values, seed=9)
    seed = 9 if settings.rounding == "random" else None
    window = (settings.lowest + 127, settings.highest + 127, settings.bits - 1)
    twin = codes_torch(values, seed, *window)
    unsigned = codes.long() & 0xFFFF
    assert torch.equal(unsigned, twin)
    back = decode_torch(codes, window[0], window[2])
    assert np.array_equal(bits_of(settings.decode(codes)), bits_of(back))


def test_powers_are_what_nine_bits_decode() -> None:
    values = all_kinds()[:20_000]
    wanted = rounded(Natural(), values, seed=4)
    twin = powers_torch(values, 4) << 1  # without the sign
    assert torch.equal(twin, torch.from_numpy((bits_of(wanted) << 1).astype(np.int64)))


def outcomes(value: float) -> np.ndarray:
    """What each of the 2**23 values of U makes of ``value``: the formula of section 2.4."""
    bits = np.array([value], np.float32).view(np.uint32)
    return ((bits + EVERY_U) & np.uint32(0xFF800000)).view(np.float32)


@pytest.mark.parametrize(
    ("value", "ratio"),
    [
        (2.5, 1.12),
        (-2.5, 1.12),
        (1.0, 1.0),
        (4 / 3, 1.125),
        (4 / 3 * 2**90, 1.125),
        (4 / 3 * 2.0**-126, 1.125),
        (1.5, 10 / 9),
        (1.9999999, 1.0),
        (0.0, None),
    ],
)
def test_all_noise_run_through(value: float, ratio: float | None) -> None:
    """Exact moments, not estimates: the mean is the value itself.

    The ratio is (1 + 3 m) / (1 + m)**2; what differs is float32's rounding of 4/3, 2**-24.
    """
    t = float(np.float32(value))
    found, counts = np.unique(outcomes(value), return_counts=True)
    mean = sum(Fraction(float(v)) * int(c) for v, c in zip(found, counts, strict=True)) / 2**23
    assert mean == Fraction(t)
    assert len(found) <= 2
    if ratio is not None:
        second = sum(float(v) ** 2 * int(c) for v, c in zip(found, counts, strict=True)) / 2**23
        assert second / t**2 == pytest.approx(ratio, rel=1e-6)


def test_the_kernel_is_that_formula() -> None:
    """U is the low 23 bits of the noise: with the test above, the kernel's mean is exact."""
    values = all_kinds()
    values = values[values.abs() < 2.0**127]  # beyond, the carry would end at infinity
    u = noise.words(3, np.arange(values.numel())) & np.uint32(0x7FFFFF)
    found = bits_of(rounded(Natural(), values, 3))
    assert np.array_equal(found, (bits_of(values) + u) & 0xFF800000)


def test_the_second_moment_stays_below_nine_eighths() -> None:
    """Of all 2**23 mantissas. As many U carry as the mantissa has units, so the chance is m."""
    for mantissa in (0, 1, 12345, 2796203, (1 << 23) - 1):
        bits = np.uint32(0x3F800000 + mantissa)
        assert int((((bits + EVERY_U) >> np.uint32(23)) > 127).sum()) == mantissa
    m = EVERY_U / 2**23
    ratio = (1 + 3 * m) / (1 + m) ** 2
    assert ratio.max() <= 1.125
    assert ratio.max() > 1.1249999
    assert abs(m[ratio.argmax()] - 1 / 3) < 1e-6


def test_entries_do_not_share_their_noise() -> None:
    """Of 2**16 entries 1.5 a half rises; so do a quarter of all pairs, for other seeds too.

    Deviations 2**-9 and sqrt(3) 2**-10 of the shares; six of them.
    """
    a = rounded(Natural(), torch.full((1 << 16,), 1.5), seed=1) == 2
    b = rounded(Natural(), torch.full((1 << 16,), 1.5), seed=2) == 2
    assert abs(float(a.float().mean()) - 0.5) < 6 * 2**-9
    for other in (a.roll(1), b):
        assert abs(float((a & other).float().mean()) - 0.25) < 6 * math.sqrt(3) * 2**-10


def test_zeros_denormals_and_the_end_of_the_range() -> None:
    tiny, huge = 2.0**-149, torch.finfo(torch.float32).max
    found = rounded(Natural(), torch.tensor([0.0, -0.0] + [huge, -huge] * 40), seed=1)
    assert bits_of(found)[:2].tolist() == [0, 0x80000000]
    assert found[2:].tolist() == [2.0**127, -(2.0**127)] * 40
    # 3 * 2**-127 / 4 is a denormal, three quarters of a half of the least power: 3/8 of it.
    n = 1 << 16
    some = rounded(Natural(), torch.full((n,), 0.375 * 2.0**-126), seed=1)
    assert set(some.tolist()) == {0.0, 2.0**-126}
    share = float((some > 0).double().mean())
    assert abs(share - 0.375) < 5 * math.sqrt(0.375 * 0.625 / n)
    found = np.unique(outcomes(5 * tiny), return_counts=True)
    assert found[0].tolist() == [0.0, 2.0**-126]
    assert found[1].tolist() == [2**23 - 5, 5]

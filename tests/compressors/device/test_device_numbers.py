"""Numbers that no order of summation changes, and those that are in doubt."""

import numpy as np
import torch

from compressors.device import numbers
from compressors.device.numbers import of_spreads, stronger
from compressors.segments.plan import Number

MEAN = Number("mean", float)


def of_sums(number: Number, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of arrays and of tensors."""
    found = numbers.of_sums(number, *arrays)
    for one, other in zip(
        found, numbers.of_sums(number, *map(torch.from_numpy, arrays)), strict=True
    ):
        assert np.array_equal(one, other.numpy()) and one.dtype == other.numpy().dtype
    return found


def test_a_mean_is_certain_where_it_is_far_from_halfway() -> None:
    sums, counts = np.array([3.0, 0.0, 8.0 + 4 * 2.0**-23]), np.array([2, 0, 8])
    edges = np.zeros(3, np.int32)
    values, certain = of_sums(MEAN, counts, edges, edges, sums)
    assert values[:2].tolist() == [1.5, 0.0]
    assert certain.tolist() == [True, True, False]  # halfway between two float32 numbers
    ones = np.full(3, 127 << 23, np.int32)  # no value is below 1: all sums are exact
    assert of_sums(MEAN, counts, ones, ones, sums)[1].all()
    large = np.array([2.0**30 + 2.0**6] * 3)  # 2**53 units in the last place of 1 are 2**30
    assert not of_sums(MEAN, np.ones(3, int), ones, ones, large)[1].any()


def test_norms() -> None:
    tops = np.array([2.5], np.float32).view(np.int32)
    sums, counts = np.array([2.0]), np.array([5])
    assert of_sums(Number("inf", float), counts, tops, tops, sums)[0].tolist() == [2.5]
    assert of_sums(Number("2", float), counts, tops, tops, sums)[0] == np.float32(np.sqrt(2.0))
    beyond = np.array([1e39])
    assert of_sums(Number("1", float), counts, tops, tops, beyond)[0] == np.finfo(np.float32).max


def test_a_norm_of_small_values_is_in_doubt_where_the_order_shows() -> None:
    """The unit of squares is the square of the values' unit, not that of float32's least."""
    halfway = np.array([(1 + 2.0**-24) ** 2 * 2.0**-120] * 3)  # exact; its root is between two
    counts, norm = np.full(3, 4), Number("2", float)
    edges = np.array([2.0**-84, 2.0**-60, 2.0**-140], np.float32).view(np.int32)
    values, certain = of_sums(norm, counts, edges, edges, halfway)
    assert certain.tolist() == [False, True, False]  # of values from 2**-60 on it is exact
    assert values[1] == 2.0**-60


def test_a_magnitude_cut_off_at_standard_deviations() -> None:
    counts = np.array([4, 4, 1, 0, 4])
    tops = np.array([8, 8, 5, 0, 0], np.float32).view(np.int32)
    spreads = np.array([16.0, 1e-20, 0.0, 0.0, 0.0])
    values, certain = of_spreads(2.5, counts, tops, spreads)
    assert values[[0, 2, 3, 4]].tolist() == [5.0, 5.0, 0.0, 0.0]
    assert certain.tolist() == [True, False, True, True, True]  # all equal, or nearly: who knows
    assert of_spreads(9.0, counts, tops, spreads)[0][0] == 8.0


def test_the_stronger_side() -> None:
    sums = np.array([[2.0, 3.0], [3.0, 2.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    counts = np.array([[1, 1], [1, 1], [1, 1], [0, 1], [1, 0], [0, 0]])
    edges = np.zeros((6, 2), np.int32)
    side, certain = stronger(sums, counts, edges)
    assert side[[0, 1, 3, 4, 5]].tolist() == [1, 0, 1, 0, 0]
    assert certain.tolist() == [True, True, False, True, True, True]
    side, certain = stronger(sums, counts, edges + (127 << 23))
    assert side[2] == 0 and certain.all()

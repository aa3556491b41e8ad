"""Numbers that no order of summation changes, and those that are in doubt."""

import numpy as np

from compressors.device.numbers import of_spreads, stronger


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

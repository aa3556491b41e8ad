"""Links that are shared, that change and that stop: fair rates and ends of transfers.

By hand with bits and rates that are small numbers, so that most of the sums are exact; and what
holds for any.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.network.rates import Rate, read_trace
from tests.support.filling import by_max_min, transfers


def constant(*values: float) -> list[Rate]:
    return [Rate.constant(value) for value in values]


def star(caps: list[float], capacity: float) -> list[float]:
    """The rates of messages over links of their own and one that all share."""
    own = {f"{place}": float(cap) for place, cap in enumerate(caps)}
    return by_max_min([(link, "all") for link in own], own | {"all": float(capacity)})


@pytest.mark.parametrize(
    ("caps", "capacity", "rates"),
    [
        ([5, 5], 10, [5, 5]),
        ([3, 7], 10, [3, 7]),
        ([7, 3, 2], 12, [7, 3, 2]),  # just enough
        ([4, 4, 10], 12, [4, 4, 4]),
        ([10, 4, 1], 9, [4, 4, 1]),
        ([10, 1, 4], 12, [7, 1, 4]),
        ([6, 2, 6, 2], 10, [3, 2, 3, 2]),
        ([0, 0, 8], 4, [0, 0, 4]),
        ([8, 8], 0.5, [0.25, 0.25]),
        ([math.inf, 3], math.inf, [math.inf, 3]),
        ([math.inf, math.inf, 2], 8, [3, 3, 2]),
    ],
)
def test_fair_shares(caps: list[float], capacity: float, rates: list[float]) -> None:
    assert star(caps, capacity) == rates


def test_a_file_begins_again_after_a_step_as_long_as_the_one_before(tmp_path: Path) -> None:
    """Steps at 0, 2 and 5 s: the last lasts 3 s, too, and all comes again every 8 s.

    1 bit/s for 2 s, nothing for 3 and 3 bit/s for 3: 11 bits in 8 s, 13 by 10 s, and the last 7 of
    20 from 13 s on.
    """
    (tmp_path / "t.csv").write_text("seconds,up,down\n0,1,7\n2,0,8\n5,3,9\n")
    (up,), (down,) = read_trace(tmp_path / "t.csv").of(1)
    assert up.period == down.period == 8
    times = [0, 1.9, 2, 4.9, 5, 7.9, 8, 9.9, 10, 13, 15.9, 16, 80, 82, 85]
    assert [up.at(time) for time in times] == [1, 1, 0, 0, 3, 3, 1, 1, 0, 3, 3, 1, 1, 0, 3]
    assert [down.at(time) for time in times[:7]] == [7, 7, 8, 8, 9, 9, 7]
    changes = [up.next_change(time) for time in (0, 1, 2, 5, 7.9, 8, 9, 10, 15, 80, 84)]
    assert changes == [2, 2, 5, 8, 8, 10, 10, 13, 16, 82, 85]
    ends = transfers(np.array([0.0]), np.array([20]), [up], math.inf)
    assert ends == pytest.approx([13 + 7 / 3], abs=1e-9)


def test_a_file_of_one_step_never_changes_and_others_share_a_row(tmp_path: Path) -> None:
    rows = ["0,0,1,2", "1,0,3,4", "1,5,5,6", "2,0,1,2", "*,0,3,4", "*,5,5,6", "4,0,1,2"]
    (tmp_path / "t.csv").write_text("\n".join(["client,seconds,up,down", *rows]))
    up, down = read_trace(tmp_path / "t.csv").of(5)
    assert up[0].is_constant and math.isinf(up[0].period) and up[0].next_change(3.0) == math.inf
    assert [rate.at(6.0) for rate in up] == [1, 5, 1, 5, 1]
    assert [rate.at(4.0) for rate in down] == [2, 4, 2, 4, 2] and up[1].period == 10


@given(st.integers(0, 2**32), st.integers(1, 12), st.floats(0.5, 50))
def test_no_bit_is_lost_on_a_shared_link(seed: int, count: int, capacity: float) -> None:
    """The link never carries more than it can, and every message takes at least its own time."""
    generator = np.random.default_rng(seed)
    starts, bits = generator.uniform(0, 5, count), generator.integers(0, 100, count)
    caps = generator.uniform(0.5, 20, count)
    ends = np.array(transfers(starts, bits, constant(*caps), capacity))
    assert (ends - starts >= bits / np.minimum(caps, capacity) * (1 - 1e-9)).all()
    assert ends.max() - starts.min() >= bits.sum() / capacity * (1 - 1e-9)


@given(st.floats(0.1, 7), st.integers(1, 4), st.integers(0, 2**32))
def test_a_clock_that_follows_the_changes_never_stands_still(
    period: float, steps: int, seed: int
) -> None:
    times = np.sort(np.random.default_rng(seed).uniform(0, period, steps))
    times[0] = 0.0
    rate = Rate(tuple(np.unique(times)), tuple(range(1, len(np.unique(times)) + 1)), period)
    now, seen = 0.0, []
    for _ in range(200):
        seen.append(rate.at(now))
        after = rate.next_change(now)
        if math.isinf(after):
            return
        assert after > now
        now = after
    assert seen[:10] == [float(1 + i % len(rate.values)) for i in range(10)]


def test_a_place_in_a_long_trace_is_found_by_few_looks_in_any_period() -> None:
    """A day with a step every second, in which 17 looks find a place; not one look per step."""

    class Counted(tuple[float, ...]):
        looks = 0

        def __getitem__(self, key: Any) -> Any:
            Counted.looks += 1
            return super().__getitem__(key)

    day = 86_400
    rate = Rate(Counted(map(float, range(day))), tuple(map(float, range(day))), float(day))
    for time in (5.5, day + 5.5, 10 * day + 70_000.0, 3 * day - 0.25):
        Counted.looks = 0
        assert rate.at(time) == time % day // 1 and rate.next_change(time) == time // 1 + 1
        assert Counted.looks < 60


@pytest.mark.parametrize("step", [0.1, 0.3, 0.7, 0.9])
def test_who_is_done_as_an_outage_begins_does_not_wait_for_its_end(step: float) -> None:
    """1 bit/s from 3 to 6 s, from 9 to 12 s and so on: 36 bits are there at 72 s, alone or beside
    somebody whose link changes every so often, in steps whose sums are rounded.
    """
    works, stands = Rate((0.0, 3.0), (0.0, 1.0), 6.0), np.array([36.0, 200.0])
    changing = Rate((0.0, step), (1.0, 2.0), 2 * step)
    assert transfers(np.zeros(1), stands[:1], [works], math.inf) == [72]
    beside = np.zeros(2), stands, [works, changing], math.inf
    assert transfers(*beside)[0] == pytest.approx(72, abs=1e-9)

"""Robust rules by numbers that are worked out on paper, and what they refuse."""

import pytest
import torch
from torch import Tensor

from compressors import Raw
from fedsim import RunConfig, UsageError
from fedsim.settings.strategies import algorithm_of
from strategies import Algorithm, Krum, Median, RoundInfo, TrimmedMean, Uplink, build
from strategies.algorithms.robust import squared_distances


def step(rule: Algorithm, *updates: list[float]) -> list[float]:
    ups = {c: Uplink(b"", {}, {"w": torch.tensor(x)}, {}) for c, x in enumerate(updates)}
    info = RoundInfo(1, 0, len(ups), Raw(), len(ups))
    before = {c: up.update["w"].clone() for c, up in ups.items()}
    update, state = rule.step(ups, {}, {"w": torch.zeros(len(updates[0]))}, info)
    assert update is not None and state == {}
    assert all(torch.equal(up.update["w"], before[c]) for c, up in ups.items())
    moved: Tensor = update["w"]
    return moved.tolist()


def test_the_median_goes_entry_by_entry() -> None:
    """Of -1, 2, 9 the median is 2; of 5, 0, 4 it is 4. Of 1, 2, 8, 9 it is (2 + 8) / 2."""
    assert step(Median(), [9.0, 5.0], [-1.0, 0.0], [2.0, 4.0]) == [2.0, 4.0]
    assert step(Median(), [9.0], [1.0], [2.0], [8.0]) == [5.0]


def test_the_trimmed_mean_cuts_off_k_at_each_end() -> None:
    """0.3 of five is one: of 100, 1, 2, 6, -50 the mean of 1, 2 and 6. 0.4 is two: the median."""
    sent = [100.0], [1.0], [2.0], [6.0], [-50.0]
    assert step(TrimmedMean(0.3), *sent) == [3.0]
    assert step(TrimmedMean(0.4), *sent) == [2.0]


def test_krum_by_hand() -> None:
    """f = 1 of six updates: a score is the sum over the 3 nearest.

    0: 1 + 4 + 16 = 21; 1: 1 + 1 + 9 = 11; 2: 1 + 4 + 4 = 9; 4: 4 + 9 + 9 = 22;
    7: 9 + 25 + 36 = 70; 90: far. The best is 2, the best two are 2 and 1, of three 0 is the third.
    """
    sent = [7.0], [0.0], [1.0], [90.0], [2.0], [4.0]
    assert step(Krum(f=1), *sent) == [2.0]
    assert step(Krum(f=1, m=2), *sent) == [1.5]
    assert step(Krum(f=1, m=3), *sent) == [1.0]


def test_krum_takes_the_lower_client_of_equal_scores() -> None:
    """f = 0 of three, each with its nearest: -3 and 3 are 9 from 0, and 0 is 9 from both."""
    assert step(Krum(f=0), [3.0], [0.0], [-3.0]) == [3.0]


def test_krum_does_nothing_with_too_few_updates() -> None:
    """With f = 1 and four updates a liar and one whom it follows are as near as any two."""
    assert step(Krum(f=1), [1.0], [2.0], [3.0], [3.0]) == [0.0]


def test_distances_are_over_all_tensors_and_exact_for_equal_updates() -> None:
    big = {"a": torch.full((2,), 1e6), "b": torch.tensor([[1.0]])}
    other = {"a": torch.full((2,), 1e6 + 1), "b": torch.tensor([[3.0]])}
    assert squared_distances([big, big, other]).tolist() == [[0, 0, 6], [0, 0, 6], [6, 6, 0]]


@pytest.mark.parametrize("rule", [Median(), TrimmedMean(0.2), Krum(1)])
def test_one_liar_of_five_moves_no_entry_out_of_what_the_others_sent(rule: Algorithm) -> None:
    honest = [[1.0, -2.0], [1.5, -1.0], [2.0, -1.5], [1.2, -1.7]]
    for lie in ([1e30, -1e30], [-1e30, 0.0], [1.4, 1e30]):
        moved = step(rule, lie, *honest)
        assert 1.0 <= moved[0] <= 2.0 and -2.0 <= moved[1] <= -1.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"strategy": "trimmed_mean(0.1)", "clients": 9}, ["--cohort is 9 of 9", "0.1", "give 10"]),
        ({"strategy": "trimmed_mean(0.5)"}, ["beta is 0.5", "beta < 0.5"]),
        ({"strategy": "krum(2)", "clients": 6}, ["--cohort is 6 of 6", "f = 2", "give 7"]),
        ({"strategy": "krum(2, 6)", "clients": 7}, ["m = 6", "m of 5 at most"]),
        ({"strategy": "krum(-1)"}, ["f is -1", "whole number"]),
        ({"strategy": "krum(1.5)"}, ["f is 1.5", "whole number"]),
        ({"strategy": "median", "weighting": "samples"}, ["--weighting is 'samples'", "median"]),
        ({"strategy": "krum", "clients": 5, "downlink": "relay"}, ["--downlink is 'relay'"]),
    ],
)
def test_what_has_no_sense_is_refused(settings: dict[str, object], words: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        RunConfig.of(**settings)
    assert all(word in str(error.value) for word in words), error.value


def test_a_share_is_of_whole_updates() -> None:
    """In floats 0.29 * 100 is 28.999..., and 0.1 of 10 is one."""
    assert [TrimmedMean(0.29).trimmed(100), TrimmedMean(0.1).trimmed(10)] == [29, 1]
    assert TrimmedMean(0.1).trimmed(9) == 0


def test_they_are_values_in_flower_s_loop_too() -> None:
    assert algorithm_of("krum(2, 3)") == Krum(f=2, m=3)
    with pytest.raises(ValueError, match="cohort is 4.*give 5"):
        build(Krum(1), Raw(), clients=4)

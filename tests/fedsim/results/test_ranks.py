"""Many methods over blocks: published and hand-worked numbers, and the sentence that answers."""

from math import isnan, nan, sqrt

import numpy as np
import pandas as pd
import pytest

from fedsim.ground.errors import UsageError
from fedsim.results.intervals import repetitions
from fedsim.results.ranks import Comparison, compare_values

DEMSAR = {  # the ranks of table 6 of Demsar 2006: four classifiers on 14 data sets
    "C4.5": [4, 1, 4, 4, 4, 1, 3, 2.5, 4, 2.5, 4, 3, 4, 3],
    "C4.5+m": [3, 2, 1, 1, 2, 2.5, 2, 2.5, 3, 2.5, 2.5, 2, 1, 1],
    "C4.5+cf": [2, 3, 2, 3, 3, 4, 4, 4, 2, 2.5, 1, 4, 2, 4],
    "C4.5+m+cf": [1, 4, 3, 2, 1, 2.5, 1, 1, 1, 2.5, 2.5, 1, 3, 2],
}


def frame(values: dict[str, list[float]]) -> pd.DataFrame:
    """Values of seeds of one task."""
    count = len(next(iter(values.values())))
    index = pd.MultiIndex.from_product([["t"], range(count)], names=["task", "seed"])
    return pd.DataFrame(values, index)


def around(middle: float, spread: float, count: int = 6) -> list[float]:
    """So many values, half of them ``spread`` above and half below ``middle``."""
    return [middle + spread * (-1) ** seed for seed in range(count)]


def test_demsars_example() -> None:
    """Printed: ranks 3.143, 2.000, 2.893, 1.964; chi2 9.28, without the correction for ties; CD
    1.25 at 5 %. Ties are three pairs and one four: 1 - (3 * 6 + 60) / (14 * 60)."""
    found = compare_values(frame(DEMSAR), "rank", higher=False)
    ranks = found.methods.set_index("label")["rank"]
    expected = {"C4.5": 3.143, "C4.5+m": 2.0, "C4.5+cf": 2.893, "C4.5+m+cf": 1.964}
    assert ranks.to_dict() == pytest.approx(expected, abs=5e-4)
    tied = 1 - 78 / 840
    assert found.chi2 * tied == pytest.approx(9.28, abs=5e-3)
    assert found.f_value == pytest.approx(13 * found.chi2 / (42 - found.chi2))
    assert found.critical_difference == pytest.approx(1.25, abs=5e-3)
    assert found.groups() == [["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]]


def test_iman_and_davenports_f_by_hand() -> None:
    """Five blocks without ties, rank sums 6, 9 and 15: chi2 = 12 / 60 * 342 - 60 = 8.4, and
    F = 4 * 8.4 / (10 - 8.4) = 21."""
    found = compare_values(
        frame({"a": [1, 1, 1, 1, 2], "b": [2, 2, 2, 2, 1], "c": [3, 3, 3, 3, 3]}), "x", False
    )
    assert (found.chi2, found.f_value) == (pytest.approx(8.4), pytest.approx(21))
    assert found.chi2_p_value == pytest.approx(np.exp(-4.2))  # of two degrees of freedom
    assert found.critical_difference == pytest.approx(2.343 * sqrt(12 / 30), abs=1e-3)
    assert found.groups() == [["a", "b"], ["b", "c"]]  # of ranks 1.2, 1.8 and 3


def test_a_pair_by_hand() -> None:
    """Differences 0.01, 0.02, 0.03, 0.02, 0.02: mean 0.02, deviation sqrt(0.00005), t = 6.325 of 4
    degrees: p = 0.00320, half = 2.776 * 0.003162 = 0.00878. The test against 0.025 has
    t = -1.581: p = 0.0945."""
    values = frame({"a": [0.91, 0.92, 0.93, 0.92, 0.92], "b": [0.9] * 5})
    pair = compare_values(values, "accuracy", True, margin=0.025).pairs.iloc[0]
    assert pair["difference"] == pytest.approx(0.02)
    assert pair["half"] == pytest.approx(0.00878, abs=1e-5)
    assert pair["p_value"] == pytest.approx(0.0032, abs=1e-5)
    assert pair["equivalence_p_value"] == pytest.approx(0.0945, abs=1e-4)
    signed = compare_values(values, "accuracy", True, test="wilcoxon").pairs.iloc[0]
    assert signed["p_value"] == pytest.approx(2 / 2**5)  # exact: all five have one sign


def test_holm_is_over_all_pairs() -> None:
    values = frame({"a": [1, 2, 3, 4, 5.5], "b": [2, 2.5, 4, 4, 7], "c": [4, 3, 6, 5, 9]})
    pairs = compare_values(values, "loss", False).pairs
    ordered = pairs.sort_values("p_value")
    assert ordered["p_corrected"].iloc[0] == pytest.approx(3 * ordered["p_value"].iloc[0])
    assert (pairs["p_corrected"] >= pairs["p_value"]).all()


@pytest.mark.parametrize(
    ("difference", "deviation", "pairs"),
    [
        (0.5, 1, 34),
        (0.8, 1, 15),
        (0.2, 1, 199),
        (-1.0, 1, 10),
        (0.0, 1, None),
        (1, 0, None),
        (1e-6, 1, None),
        (nan, 1, None),
        (100.0, 1, 2),
    ],
)
def test_repetitions_as_tables_of_power_have_them(
    difference: float, deviation: float, pairs: int | None
) -> None:
    """Those of effects 0.2, 0.5, 0.8 and 1 are G*Power's, of a paired test at 5 % and 80 %."""
    assert repetitions(difference, deviation) == pairs


def answer(values: dict[str, list[float]], **how: float | str) -> str:
    return compare_values(frame(values), "accuracy", True, **how).answer  # type: ignore[arg-type]


A = [0.901, 0.911, 0.921, 0.931, 0.941, 0.951]


def less(amount: float, spread: float) -> list[float]:
    return [a - d for a, d in zip(A, around(amount, spread), strict=True)]


def test_one_sentence_answers() -> None:
    clear = {"a": A, "b": less(0.1, 0.01), "c": less(0.2, -0.02)}
    assert answer(clear) == "a is better than b and c."
    assert answer(clear, reference="b") == "b is better than c; a is better than b."
    assert answer({"a": A, "b": less(0.0005, 0.002)}) == "a and b are equivalent within 0.01."
    assert answer({"a": A, "b": less(0.003, 0.001)}) == "a is better than b, by less than 0.01."
    untold = answer({"a": A, "b": less(0.02, 0.05)})
    assert untold.startswith("a cannot be told from b: about 61 seeds")
    assert repetitions(0.02, 0.05 * sqrt(6 / 5)) == 61
    three = answer({"a": A, "b": less(0.02, 0.05), "c": less(0.2, -0.02)})
    needed = repetitions(0.02, 0.05 * sqrt(6 / 5), tests=3)
    assert needed == 82 and f"a cannot be told from b: about {needed} seeds" in three


def test_a_lower_metric_is_better_where_it_is() -> None:
    found = compare_values(frame({"a": A, "b": less(0.1, 0.01)}), "loss", higher=False)
    assert found.answer == "b is better than a." and found.margin is None
    assert found.pairs["equivalence_p_value"].isna().all()


def test_fewer_than_five_blocks_claim_nothing() -> None:
    values = frame({"a": [0.9, 0.91, 0.92, 0.93], "b": [0.5, 0.52, 0.51, 0.53]})
    found = compare_values(values, "accuracy", True)
    assert found.pairs["p_corrected"].iloc[0] < 1e-4
    assert found.answer.startswith("Nothing can be claimed of 4 blocks, 5 are the least")
    assert "about 5 seeds" in found.answer


def test_seeds_of_several_tasks_are_shared_out() -> None:
    """61 blocks of two tasks are 31 seeds of each."""
    index = pd.MultiIndex.from_product([["t", "u"], range(3)], names=["task", "seed"])
    values = pd.DataFrame({"a": A, "b": less(0.02, 0.05)}, index)
    told = compare_values(values, "accuracy", True).answer
    assert "about 31 seeds of each of 2 tasks" in told


def test_what_says_nothing_of_chance_has_no_p_value() -> None:
    """The same difference in every block; and what is not finite."""
    for values in ({"a": A, "b": less(0.1, 0)}, {"a": A, "b": [*A[:5], -np.inf]}):
        found = compare_values(frame(values), "accuracy", True)
        assert isnan(found.pairs["p_value"].iloc[0])
        assert found.answer == "a cannot be told from b: it is not known how many seeds would tell."
    same = compare_values(frame({"a": A, "b": A}), "accuracy", True)
    assert same.answer == "a and b are equivalent within 0.01."


def test_groups_overlap_and_leave_out_what_is_in_a_larger_one() -> None:
    table = pd.DataFrame({"label": list("abcd"), "rank": [1.0, 1.9, 2.5, 4.0]})
    found = Comparison(table, table, table, "a", "x", None, "t", nan, nan, nan, nan, 1.0)
    assert found.groups() == [["a", "b"], ["b", "c"]]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"reference": "z"}, "reference 'z'.*a, b"),
        ({"test": "sign"}, "test 'sign'.*t, wilcoxon"),
        ({"margin": 0.0}, "margin is 0: .*above 0"),
        ({"margin": nan}, "margin is nan"),
    ],
)
def test_what_is_refused(how: dict[str, str | float], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        answer({"a": A, "b": A}, **how)


def test_one_method_or_one_block_is_refused() -> None:
    with pytest.raises(UsageError, match=r"one method \(a\)"):
        answer({"a": A})
    with pytest.raises(UsageError, match="a, b have 1 blocks"):
        answer({"a": A[:1], "b": A[:1]})

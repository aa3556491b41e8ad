"""Many methods over the same blocks: differences, ranks, tests, and a sentence that answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb, isfinite, nan, sqrt
from statistics import stdev
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedsim.ground import units
from fedsim.ground.errors import UsageError, unknown
from fedsim.results.compare import LEVEL, holm, p_value
from fedsim.results.intervals import mean, repetitions

FEWEST = 5
"""Blocks below which nothing is claimed."""

MARGIN = 0.01
"""The margin of equivalence where the metric is a fraction and none is given: one point."""

Test = Literal["t", "wilcoxon"]
TESTS: tuple[Test, ...] = ("t", "wilcoxon")


@dataclass(frozen=True)
class Comparison:
    """A comparison of several methods over the same blocks.

    A block is a task and a seed. It is the unit of repetition.

    Attributes:
        methods: a row per method, the best mean first: label, metric (the mean over the blocks),
            difference (to the reference, in the metric's unit), half (half the width of its paired
            interval of 95 % by Student's t, uncorrected; NaN of the reference), rank (the mean
            rank, 1 is the best), p_value and p_corrected (of the difference, corrected over all
            pairs by Holm), better ("yes": than the reference, "no": the reference is better, "":
            cannot be told), equivalent (to the reference within the margin).
        pairs: a row per pair of methods: first, other, difference (first less other), half,
            deviation (of the paired differences), p_value, p_corrected, nemenyi_p_value (of the
            difference of the mean ranks), equivalence_p_value and equivalence_p_corrected (two
            one-sided t-tests; NaN without a margin), better ("first", "other" or ""), equivalent,
            blocks_needed (with the correction for all pairs; pandas' Int64; missing: more than
            10,000 or not known).
        values: a row per block (index: task and seed), a column per method.
        reference: the label that differences are to.
        metric_name: what the metric is called.
        margin: of equivalence, in the metric's unit; None: none was given.
        test: "t" or "wilcoxon": the test of the pairs.
        chi2, chi2_p_value: Friedman's test of all methods; NaN of two methods.
        f_value, f_p_value: Iman and Davenport's form of it, which is less conservative.
        critical_difference: mean ranks that differ by less cannot be told apart (Nemenyi, 5 %).
        left_out: blocks that not all methods have.
    """

    methods: pd.DataFrame
    pairs: pd.DataFrame
    values: pd.DataFrame
    reference: str
    metric_name: str
    margin: float | None
    test: Test
    chi2: float
    chi2_p_value: float
    f_value: float
    f_p_value: float
    critical_difference: float
    left_out: int = 0

    @property
    def blocks(self) -> int:
        """How many blocks all methods have."""
        return len(self.values)

    @property
    def tasks(self) -> int:
        """The number of their tasks."""
        return int(self.values.index.get_level_values("task").nunique())

    @property
    def answer(self) -> str:
        """Which methods the reference is better than, worse than, equal to; in one sentence."""
        return _answer(self)

    def groups(self) -> list[list[str]]:
        """The largest sets of methods whose mean ranks Nemenyi's test does not tell apart.

        Each has two methods or more, the best rank first; a method may be in several.
        """
        ordered = self.methods.sort_values("rank", kind="stable")
        labels, ranks = ordered["label"].tolist(), ordered["rank"].to_numpy()
        sets, reached = [], 0
        for place, rank in enumerate(ranks):
            end = int(np.searchsorted(ranks, rank + self.critical_difference, side="left"))
            if end > reached and end - place > 1:
                sets.append(labels[place:end])
                reached = end
        return sets


def compare_values(
    values: pd.DataFrame,
    metric_name: str,
    higher: bool,
    reference: str | None = None,
    margin: float | None = None,
    test: Test = "t",
    left_out: int = 0,
) -> Comparison:
    """Compares the columns of a table over its rows.

    Sources: Friedman's test, Iman and Davenport's F and Nemenyi's post-hoc test as in Demsar 2006
    (Statistical comparisons of classifiers over multiple data sets), section 3.2.2, with
    Friedman's statistic corrected for ties; Holm 1979; two one-sided tests as in Schuirmann 1987.
    With k methods, N blocks and mean ranks R::

        chi2_F = 12 N / (k (k + 1)) * (sum of R^2 - k (k + 1)^2 / 4)
        F_F = (N - 1) chi2_F / (N (k - 1) - chi2_F)
        CD = q * sqrt(k (k + 1) / (6 N))

    Args:
        values: a row per block, indexed by task and seed; a column per method; no NaN.
        metric_name: what the values are called.
        higher: whether a higher value is better.
        reference: the column that differences are to; None: the best mean.
        margin: differences below it do not matter, above 0, in the unit of the values; None: 0.01
            of a fraction, and no test of equivalence of any other metric.
        test: of a pair: "t", Student's of the paired differences, or "wilcoxon", signed ranks.
        left_out: blocks that the table lacks.

    Raises:
        UsageError: fewer than two columns or rows; unknown `reference` or `test`; `margin` is not
            a finite number above 0.

    Example:
        >>> blocks = pd.MultiIndex.from_product([["digits"], range(5)], names=["task", "seed"])
        >>> rows = {"a": [0.91, 0.92, 0.93, 0.92, 0.91], "b": [0.71, 0.73, 0.72, 0.74, 0.71]}
        >>> print(compare_values(pd.DataFrame(rows, blocks), "accuracy", True).answer)
        a is better than b.
    """
    _check(values, reference, margin, test)
    if margin is None and metric_name in units.FRACTIONS:
        margin = MARGIN
    sign = 1 if higher else -1
    means = values.mean()
    labels = [str(name) for name in (-sign * means).sort_values(kind="stable").index]
    values = values[labels]
    ranks = (-sign * values).rank(axis=1).mean()
    blocks, count = values.shape
    chi2, chi2_p, f, f_p = _friedman(values.to_numpy(float))
    pairs = pd.DataFrame(
        [
            _pair(values, ranks, first, other, margin, test)
            for first, other in combinations(labels, 2)
        ]
    )
    pairs["p_corrected"] = holm(pairs["p_value"].tolist())
    pairs["equivalence_p_corrected"] = holm(pairs["equivalence_p_value"].tolist())
    ahead = sign * pairs["difference"] > 0
    is_significant = pairs["p_corrected"] <= LEVEL
    pairs["better"] = np.where(is_significant, np.where(ahead, "first", "other"), "")
    pairs["equivalent"] = pairs["equivalence_p_corrected"] <= LEVEL
    pairs["blocks_needed"] = pairs["blocks_needed"].astype("Int64")
    chosen = labels[0] if reference is None else reference
    return Comparison(
        _to_reference(means, ranks, pairs, labels, chosen),
        pairs,
        values,
        chosen,
        metric_name,
        margin,
        test,
        chi2,
        chi2_p,
        f,
        f_p,
        _quantile(count) * sqrt(count * (count + 1) / (6 * blocks)),
        left_out,
    )


def _check(values: pd.DataFrame, reference: str | None, margin: float | None, test: str) -> None:
    names = [str(name) for name in values.columns]
    if len(names) < 2:
        raise UsageError(
            f"the runs are of one method ({', '.join(names) or 'none'}): "
            "give folders of two or more"
        )
    if len(values) < 2:
        raise UsageError(
            f"{', '.join(names)} have {len(values)} blocks (task and seed) in common: two are the "
            "least; train each with `fedsim sweep --seeds N`, the same N, five or more"
        )
    if reference is not None and reference not in names:
        raise UsageError(unknown("reference", reference, sorted(names)))
    if test not in TESTS:
        raise UsageError(unknown("test", test, TESTS))
    if margin is not None and not (isfinite(margin) and margin > 0):
        raise UsageError(f"margin is {margin:g}: it must be a number above 0, in the metric's unit")


def _pair(
    values: pd.DataFrame, ranks: pd.Series, first: str, other: str, margin: float | None, test: Test
) -> dict[str, Any]:
    differences = (values[first] - values[other]).tolist()
    interval, tests = mean(differences), comb(values.shape[1], 2)
    deviation = stdev(differences) if all(map(isfinite, differences)) else nan
    effect = max(abs(interval.value), margin or 0.0)
    return {
        "first": first,
        "other": other,
        "difference": sum(differences) / len(differences),
        "half": interval.half,
        "deviation": deviation,
        "p_value": p_value(differences) if test == "t" else _signed_ranks(differences),
        "p_corrected": nan,
        "nemenyi_p_value": _nemenyi(ranks[first] - ranks[other], values.shape),
        "equivalence_p_value": _equivalence(differences, margin),
        "equivalence_p_corrected": nan,
        "better": "",
        "equivalent": False,
        "blocks_needed": repetitions(effect, deviation, tests) if isfinite(effect) else None,
    }


def _to_reference(
    means: pd.Series, ranks: pd.Series, pairs: pd.DataFrame, labels: Sequence[str], chosen: str
) -> pd.DataFrame:
    """The table of the methods, from that of the pairs with the reference."""
    rows = []
    for label in labels:
        row = {
            "label": label,
            "metric": means[label],
            "difference": 0.0,
            "half": nan,
            "rank": ranks[label],
            "p_value": nan,
            "p_corrected": nan,
            "better": "",
            "equivalent": False,
        }
        for pair in pairs.to_dict("records"):
            if {pair["first"], pair["other"]} == {label, chosen}:
                side = 1 if pair["first"] == label else -1
                words = {"": "", ("first" if side > 0 else "other"): "yes"}
                row |= {name: pair[name] for name in ("half", "p_value", "p_corrected")}
                row |= {
                    "difference": side * pair["difference"],
                    "equivalent": pair["equivalent"],
                    "better": words.get(pair["better"], "no"),
                }
        rows.append(row)
    return pd.DataFrame(rows)


def _friedman(values: np.ndarray) -> tuple[float, float, float, float]:
    """Friedman's chi2 (corrected for ties) and Iman and Davenport's F, each with its p-value."""
    from scipy.stats import f, friedmanchisquare

    blocks, count = values.shape
    if count < 3 or not any(len({*row}) > 1 for row in values.tolist()):
        return nan, nan, nan, nan
    chi2, p = map(float, friedmanchisquare(*values.T))
    left = blocks * (count - 1) - chi2
    if left <= 1e-9:  # every block has the same order
        return chi2, p, float("inf"), 0.0
    value = (blocks - 1) * chi2 / left
    return chi2, p, value, float(f.sf(value, count - 1, (count - 1) * (blocks - 1)))


def _quantile(count: int) -> float:
    """q of Nemenyi's test at 5 %: the studentized range's over the root of 2."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(1 - LEVEL, count, np.inf)) / sqrt(2)


def _nemenyi(difference: float, shape: tuple[int, int]) -> float:
    """The p-value of a difference of two mean ranks, of so many blocks and methods."""
    from scipy.stats import studentized_range

    blocks, count = shape
    z = abs(float(difference)) / sqrt(count * (count + 1) / (6 * blocks))
    return float(studentized_range.sf(z * sqrt(2), count, np.inf))


def _signed_ranks(differences: list[float]) -> float:
    """Wilcoxon's two-sided p-value; 1 where all differences are 0, NaN where one is not finite."""
    from scipy.stats import wilcoxon

    if not all(map(isfinite, differences)):
        return nan
    rounded = np.round(differences, 12)  # equal scores may differ by rounding
    return float(wilcoxon(rounded).pvalue) if rounded.any() else 1.0


def _equivalence(differences: list[float], margin: float | None) -> float:
    """The p-value of two one-sided t-tests: the mean is above -margin, and below margin.

    NaN without a margin, where a difference is not finite, and where all are the same but not 0.
    """
    from scipy.stats import ttest_1samp

    if margin is None or not all(map(isfinite, differences)):
        return nan
    rounded = np.round(differences, 12)
    if not np.ptp(rounded):
        return nan if rounded.any() else 0.0
    above = ttest_1samp(differences, -margin, alternative="greater").pvalue
    below = ttest_1samp(differences, margin, alternative="less").pvalue
    return float(max(above, below))


def _answer(result: Comparison) -> str:
    name, rows = result.reference, result.methods[result.methods["label"] != result.reference]
    margin = "" if result.margin is None else f"{result.margin:g}"
    needed = result.pairs.set_index(["first", "other"])["blocks_needed"]

    def would_tell(labels: Sequence[str]) -> str:
        counts = [
            needed[pair] for pair in needed.index if name in pair and {*pair} - {name} <= {*labels}
        ]
        if any(pd.isna(count) for count in counts):
            return "it is not known how many seeds would tell"
        seeds = max(ceil(max(FEWEST, *counts) / result.tasks), 1)
        each = "" if result.tasks == 1 else f" of each of {result.tasks} tasks"
        return f"about {seeds} seeds{each} would tell"

    if result.blocks < FEWEST:
        return (
            f"Nothing can be claimed of {result.blocks} blocks, {FEWEST} are the least: "
            f"{would_tell(rows['label'].tolist())}."
        )
    lots = {
        (better, same): group["label"].tolist()
        for (better, same), group in rows.groupby(["better", "equivalent"])
    }
    parts = []
    for same, words in ((False, ""), (True, f", by less than {margin}")):
        if worse := lots.get(("no", same)):
            parts.append(f"{name} is better than {_listed(worse)}{words}")
        if better := lots.get(("yes", same)):
            verb = "is" if len(better) == 1 else "are"
            parts.append(f"{_listed(better)} {verb} better than {name}{words}")
    if equal := lots.get(("", True)):
        verb = f"{name} and {equal[0]} are" if len(equal) == 1 else f"{_listed(equal)} each are"
        ends = "" if len(equal) == 1 else f" to {name}"
        parts.append(f"{verb} equivalent{ends} within {margin}")
    if untold := lots.get(("", False)):
        parts.append(f"{name} cannot be told from {_listed(untold)}: {would_tell(untold)}")
    return "; ".join(parts) + "."


def _listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

"""like-for-like's page: its sentences' numbers once more, from the CSV files alone."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, t, ttest_1samp

from tests.support.experiments import experiment
from tests.support.markdown import ROOT

RESULTS = ROOT / "experiments" / "like-for-like" / "results"
TASKS = {
    "digits_skewed": (10, 360),
    "mnist": (10, 2000),
    "chars": (97, 400 * 64),
    "cifar": (10, 2000),
}
"""Classes and answers of the ranked tasks."""

PAGE = re.sub(
    r"\s+",
    " ",
    (ROOT / "experiments" / "like-for-like" / "README.md").read_text().replace("\n> ", "\n"),
)


@pytest.fixture(scope="module")
def finals() -> pd.DataFrame:
    """The runs within budgets, with the log-odds of an error."""
    runs = pd.concat([pd.read_csv(RESULTS / task / "finals.csv") for task in TASKS])
    runs = runs[runs["budget"] < 1].reset_index(drop=True)
    classes, answers = (runs["task"].map(lambda name, k=k: TASKS[name][k]) for k in (0, 1))
    right = runs["metric"].fillna(1 / classes) * answers
    return runs.assign(
        points=100 * right / answers,
        logit=np.log((answers - right + 0.5) / (right + 0.5)),
        place=runs["task"] + runs["budget"].astype(str),
    )


@pytest.fixture(scope="module")
def means(finals: pd.DataFrame) -> pd.DataFrame:
    """Points: a line per place, a column per method."""
    return finals.pivot_table("points", ["task", "budget"], "method")


def test_the_headline_and_the_places(finals: pd.DataFrame) -> None:
    odds = finals.pivot_table("logit", "place", "method")
    points = finals.pivot_table("points", "place", "method")
    noise = finals.groupby(["place", "method"])["logit"].agg(lambda x: x.var() / len(x)).unstack()
    top = odds.dropna(axis=1).mean().idxmin()
    less = odds.sub(odds[top], axis=0).drop(columns=top)
    second, behind = less.mean().idxmin(), points[top] - points[less.mean().idxmin()]
    half = t.ppf(0.95, 11) * behind.std() / 12**0.5
    low, high = behind.mean() - half, behind.mean() + half
    side, ends = "behind", f"{low:.1f} to {high:.1f}"
    if behind.mean() < 0:
        side, ends = "ahead", f"{-high:.1f} to {-low:.1f}"
    assert (
        f"at the 12 places, `{second}` errs {less[second].mean():.2f} more than `{top}` in "
        f"log-odds and is {abs(behind.mean()):.1f} points {side} (90 % interval {ends})"
    ) in PAGE
    count = less.count()
    fixed = (noise[less.columns].add(noise[top], axis=0).where(less.notna()).sum() ** 0.5) / count
    for chances, words in (
        (2 * norm.sf((less.mean() / fixed).abs()), "all others are told from it{near}."),
        (ttest_1samp(less, 0, nan_policy="omit").pvalue, "Where places vary, {far} and no other."),
    ):
        order = np.argsort(np.asarray(chances))
        steps = np.asarray(chances)[order] * np.arange(len(order), 0, -1)
        told = dict(zip(less.columns[order], np.maximum.accumulate(steps) < 0.05, strict=True))
        sentence = re.escape(words).replace(r"\{near\}", "(.*?)").replace(r"\{far\}", "(.*?)")
        (named,) = re.search(sentence, PAGE).groups()  # type: ignore[union-attr]
        assert {*re.findall(r"`(\w+)`", named)} == {m for m in told if told[m] == ("far" in words)}
    ahead = odds.lt(odds[top], axis=0).sum()
    most = sorted(ahead.index[ahead == ahead.max()])
    assert len(most) <= 3
    assert re.search(rf"errs more than `{'`.*`'.join(most)}` at {ahead.max()} of the 12", PAGE)


def test_the_planned_sentence_is_the_verdict() -> None:
    verdict = pd.read_csv(RESULTS / "verdict.csv").set_index("method")
    chances = verdict["chance"].iloc[1:]
    near, far = chances[chances > 0.05], chances[chances <= 0.05]
    (names,) = re.search(rf"{len(near)} methods are not told from it: (.*?) \(Holm", PAGE).groups()  # type: ignore[union-attr]
    assert re.findall(r"`(\w+)`", names) == [*near.index]
    assert f"at least {near.min():.2g}). The {len(far)} others err more" in PAGE
    assert f"(Holm's p is at most {far.max():.2g})" in PAGE


def test_the_choice_of_the_best(finals: pd.DataFrame) -> None:
    verdict = pd.read_csv(RESULTS / "verdict.csv").set_index("method")
    mean = finals.pivot_table("logit", "place", "method")
    less = mean.sub(mean[verdict.index[0]], axis=0)[verdict.index[1:]]
    raw = {
        "the planned test tells (.*?) from it": 2
        * norm.sf((verdict["effect"] / verdict["error"])[1:]),
        r"with places as the unit (.*?) \(the": ttest_1samp(less, 0, nan_policy="omit").pvalue,
    }
    for words, chances in raw.items():
        order = np.argsort(chances)
        steps = np.maximum.accumulate(chances[order] * (153 - np.arange(17)))
        told = {*verdict.index[1:][order][steps <= 0.05]} or {"none"}
        (named,) = re.search(words, PAGE).groups()  # type: ignore[union-attr]
        assert {*re.findall(r"`?(\w+)`?", named.replace(" and ", " "))} == told
    assert f"(the least p is {min(steps):.2g})" in PAGE


def test_mean_ranks(means: pd.DataFrame) -> None:
    """By hand: 18 methods, q of 0.05 is 3.5 (studentized range 4.95 over the root of two)."""
    ranks = means.fillna(-np.inf).round(3).rank(axis=1, ascending=False).mean().sort_values()
    width = 4.953 / 2**0.5 * (18 * 19 / (6 * 12)) ** 0.5
    far = (ranks > ranks.iloc[0] + width).sum()
    first = {*re.search(r"\*\*Mean ranks\*\* put `(\w+)`, `(\w+)` and `(\w+)`", PAGE).groups()}  # type: ignore[union-attr]
    assert first == {*ranks.index[:3]}
    assert f"within {ranks.iloc[2] - ranks.iloc[0]:.1f} of each other" in PAGE
    assert f"(Nemenyi, {width:.1f}) separates {far} of the 18 methods from the first" in PAGE


def test_methods_differ_by_place_more_than_by_seed(finals: pd.DataFrame) -> None:
    """Sums of squares of nested models, by residuals of means where both are balanced."""
    seeds = pd.get_dummies(finals["place"] + "/" + finals["seed"].astype(str))
    squares = []
    for levels in (finals["method"], finals["method"] + finals["place"]):
        matrix = np.hstack([seeds, pd.get_dummies(levels)]).astype(float)
        rank = np.linalg.matrix_rank(matrix)
        left, values, _ = np.linalg.svd(matrix, full_matrices=False)
        basis = left[:, values > 1e-9 * values[0]]
        rest = finals["logit"] - basis @ (basis.T @ finals["logit"])
        squares.append((float(rest @ rest), len(finals) - rank))
    (alike, free), (own, rest_free) = squares
    ratio = (alike - own) / (free - rest_free) / (own / rest_free)
    assert f"Methods differ by place {ratio:.0f} times as much as by seed" in PAGE


def test_what_tuning_chose(finals: pd.DataFrame) -> None:
    first = finals.groupby(["task", "method", "budget"]).first()
    runs = finals.groupby(["task", "method", "budget"])["run"].agg("".join).reset_index()
    shared = runs.duplicated(["task", "method", "run"]).sum()
    smaller = (first["tuned_at"] < first.index.get_level_values("budget")).sum()
    assert f"{shared} of the {len(first)} cases have the runs of a smaller budget" in PAGE
    assert f"At {smaller} of them the choice of the smaller budget was better" in PAGE
    rates = first["factor"].round(2).value_counts()
    words = f"{rates.max()} of the {len(first)} cases chose the same one of the 16 draws, with"
    assert f"{words} {rates.idxmax():g} times" in PAGE
    knobs = first["strength"].dropna().astype(str).str.removesuffix(".0")
    most = [
        str(experiment("like-for-like", "rows").ROWS[m].strengths[-1]) for _, m, _ in knobs.index
    ]
    ends = knobs[knobs == most].groupby("method").size()
    assert f"At {ends.sum()} of {len(knobs)} cases with a knob" in PAGE
    shown = dict(re.findall(r"`(\w+)` (\d+)", re.search(r"better there \((.*?)\)", PAGE)[1]))  # type: ignore[index]
    assert all(ends[name] == int(count) for name, count in shown.items())
    assert sorted(map(int, shown.values())) == sorted(ends)[-3:]


def test_the_orders_of_the_tasks(means: pd.DataFrame) -> None:
    number = r" ([^;]*) ([\d.]+)"
    found = re.findall(f"in per cent: 1/3000{number}; 1/300{number}; 1/30{number};", PAGE)
    assert len(found) == len(TASKS)
    for task, words in zip(TASKS, found, strict=True):
        at = means.loc[task].sort_index()
        for (_, line), names, value in zip(at.iterrows(), words[::2], words[1::2], strict=True):
            shown = line.map("{:.1f}".format)
            assert value == f"{line.max():.1f}"
            assert {*re.findall(r"`(\w+)`", names)} == {*line.index[shown == value]}
        least = at.iloc[0]
        assert f"methods lie between {least.min():.1f} and {least.max():.1f} %" in PAGE
    behind = means.rsub(means.max(axis=1), axis=0).max()[means.notna().all()].sort_values()
    shown = ", ".join(f"`{name}` {points:.1f}" for name, points in behind[:5].items())
    assert f"so many points behind the best: {shown}, all others more" in PAGE


def made(gains: dict[tuple[str, float], list[float]], base: float) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"task": "mnist", "method": name, "budget": budget, "seed": seed, "metric": base + gain}
            for (name, budget), values in gains.items()
            for seed, gain in enumerate(values)
        ]
    )


def test_what_masking_did_by_hand() -> None:
    """Two places: topk gains 1 and 3 points, stc 2 and 2 (no spread), sparseloco -1 and 1."""
    masking = experiment("like-for-like", "masking")
    gains = {
        ("topk", 0.0333): [0.0, 0.02],
        ("topk", 0.00333): [0.03, 0.03],
        ("stc", 0.0333): [0.01, 0.03],
        ("stc", 0.00333): [0.02, 0.02],
        ("sparseloco", 0.0333): [-0.01, -0.01],
        ("sparseloco", 0.00333): [0.01, 0.01],
        ("eden", 0.0333): [0.5, 0.5],
    }
    before = made({case: [0.0] * 2 for case in gains}, 0.4)
    places = masking.by_place(made(gains, 0.4), before)
    first = places.iloc[0]
    assert (first["method"], first["seeds"]) == ("topk", 2) and len(places) == 6
    assert first["gain"] == pytest.approx(1) and first["half"] == pytest.approx(12.7062, rel=1e-4)
    methods = masking.by_method(places).set_index("method")
    assert methods["gain"].tolist() == pytest.approx([2, 2, 0])
    assert methods.loc["topk", "half"] == pytest.approx(12.7062, rel=1e-4)
    assert methods.loc["sparseloco", "p"] == 1


@pytest.mark.skipif(
    not (RESULTS / "masked").exists(), reason="the runs without masking are missing"
)
def test_what_masking_did(finals: pd.DataFrame) -> None:
    masked = pd.read_csv(RESULTS / "masked" / "finals.csv")
    key = ["method", "task", "budget", "seed"]
    both = finals.merge(masked[masked["budget"] < 1], on=key, suffixes=("", "_masked"))
    both = both.assign(gain=100 * (both["metric"] - both["metric_masked"]))
    places = both.groupby(key[:3])["gain"].mean()
    for name, gains in places.groupby("method"):
        half = t.ppf(0.975, len(gains) - 1) * gains.std() / len(gains) ** 0.5
        assert f"| {name} | {len(gains)} | {gains.mean():+.1f} ± {half:.1f} |" in PAGE
        assert abs(gains.mean()) < half  # "none of the three can be told"
    far = places.groupby("method").agg(["min", "max"]).loc["stc"]
    assert f"from {far['min']:+.1f} to {far['max']:+.1f} points for `stc`" in PAGE


def test_what_is_left_out_has_its_price() -> None:
    """A trial of an eighth counts as an eighth of a run; three methods' seconds are known."""
    spent = pd.read_csv(RESULTS / "masked" / "spent.csv")
    timed = spent[spent["methods"] != "eden"].groupby("task")["core_seconds"].sum() / 3600
    rows = []
    for task in TASKS:
        trials, finals = (
            pd.read_csv(RESULTS / task / f"{name}.csv").drop_duplicates("run")
            for name in ("trials", "finals")
        )
        tuned = (1 / trials["part"]).groupby(trials["method"]).sum()
        last = finals.groupby("method").size()
        three = ["topk", "stc", "sparseloco"]
        hours = timed[task] / (tuned[three].sum() + last[three].sum())
        rows.append([hours, hours * tuned.sum(), hours * last.sum(), len(tuned)])
    run, tuning, final, methods = pd.DataFrame(rows, [*TASKS]).to_numpy().T
    digits, mnist, chars, cifar = 3600 * run
    assert (
        f"takes {digits:.1f} seconds of a core on `digits_skewed`, {mnist:.0f} on `mnist`, "
        f"{chars:.0f} on `chars` and {cifar:.0f} on `cifar`" in PAGE
    )
    both = (tuning + final) / methods  # of one method
    prices = {
        "ten in all": final[1:].sum(),
        "and their finals": 2 * 6 * both[:2].sum(),
        "10 per round": 8 * 10 / 4 * both[2],
        "and the finals": (tuning + final).sum(),
        "each adds 0.9": 2 * both.sum(),
        "a row of the catalogue": both.sum(),
    }
    for words, price in prices.items():
        assert f"{words}: {price:.1f} " in PAGE, words

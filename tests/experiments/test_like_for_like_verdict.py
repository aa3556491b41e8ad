"""like-for-like: every number of the page's verdict, recomputed from the CSV files."""

from typing import Any

import pandas as pd
import pytest

from fedsim.search import tied
from tests.support.experiments import experiment
from tests.support.markdown import ROOT

RESULTS = ROOT / "experiments" / "like-for-like" / "results"
rows, tables = (experiment("like-for-like", part) for part in ("rows", "tables"))


def told_apart(finals: pd.DataFrame, budget: float) -> tuple[int, int]:
    """How many methods cannot be told from the best at a budget, and how many there are."""
    scores = tables.scores(finals)
    top = scores[tables.leader(scores, budget), budget]
    there = [values for (_, b), values in scores.items() if b == budget]
    return sum(tied(top, values) for values in there), len(there)


NAMES = ("digits", "fashion_lenet5", "char_lstm256")


@pytest.fixture(scope="module")
def finals() -> dict[str, pd.DataFrame]:
    return {name: pd.read_csv(RESULTS / name / "finals.csv") for name in NAMES}


def page() -> str:
    return " ".join((RESULTS.parent / "README.md").read_text(encoding="utf-8").split())


def means(frame: pd.DataFrame) -> Any:
    """The mean metric in per cent by budget and method."""
    return 100 * frame.groupby(["budget", "method"])["metric"].mean()


def listed(values: list[Any]) -> str:
    """As a sentence has them: a, b and c."""
    return " and ".join(filter(None, [", ".join(map(str, values[:-1])), str(values[-1])]))


def used(frame: pd.DataFrame) -> int:
    """How many methods use less than a twentieth of the whole budget."""
    whole = frame[frame["budget"] == 1.0].groupby("method")["bits"].mean()
    return int((whole < 0.05 * whole["dense"]).sum())


def test_the_verdict_on_large_budgets(finals: dict[str, pd.DataFrame]) -> None:
    text = page()
    level = [{b: told_apart(f, b) for b in f["budget"].unique()} for f in finals.values()]
    whole, small = (listed([counts[b][0] for counts in level]) for b in (1.0, 0.01))
    tenth = listed([counts[0.1][0] for counts in level[:2]])
    assert f"{whole} of 39 methods cannot be told from the best; with a tenth {tenth}." in text
    assert f"{listed([used(f) for f in finals.values()])} methods use less than a twentieth" in text
    assert f"**At a hundredth** {small} are still level" in text
    (a, b), (c, d), (e, f) = (counts[0.001] for counts in level)
    assert f"{a} of {b}, {c} of {d} and {e} of {f} are level with it" in text


def test_the_verdict_on_small_budgets(finals: dict[str, pd.DataFrame]) -> None:
    text, by_task = page(), [means(frame) for frame in finals.values()]
    for budget, method, said in (
        (0.01, "dense", "({} %), and Federated"), (0.01, "fedavg", "({} %). * **At a thousandth"),
        (0.001, "sketched", "leads on all three with {} %"),
    ):  # fmt: skip
        assert said.format(listed([f"{f[budget, method]:.1f}" for f in by_task])) in text, method
    assert all(f[0.001].idxmax() == "sketched" for f in by_task)
    for f in by_task[:2]:
        best = ", ".join(f"{m} {v:.1f}" for m, v in f[0.0001].nlargest(4).items())
        assert best in text.lower()
    quantizers = [f[0.001][f[0.001].index.map(rows.kind) == "fewer bits"] for f in by_task]
    assert [q.idxmax() for q in quantizers] == ["qsgd", "qsgd", "drive"]
    first, second, third = (f"{q.max():.1f}" for q in quantizers)
    assert f"gaps ({first} and {second} %) and, on the LSTM, DRIVE ({third} %)" in text


def test_the_verdict_on_the_lstm(finals: dict[str, pd.DataFrame]) -> None:
    text, metric = page(), means(finals["char_lstm256"])
    (first, top), (second, next_) = (
        (metric[b].idxmax(), metric[b].max()) for b in (1.0, 0.01)
    )  # fmt: skip
    assert f"{first} leads with {top:.1f}, at a hundredth {second} with {next_:.1f} %" in text
    assert f"SBC has {metric[1.0, 'sbc']:.1f}, sketched {metric[1.0, 'sketched']:.1f} %" in text
    scores = tables.scores(finals["char_lstm256"])
    apart = {
        (m, b) for m in ("sbc", "sketched") for b in (1.0, 0.01, 0.001)
        if not tied(scores[tables.leader(scores, b), b], scores[m, b])
    }  # fmt: skip
    assert {("sbc", b) for b in (1.0, 0.01, 0.001)} | {("sketched", 1.0)} <= apart
    trials = pd.read_csv(RESULTS / "char_lstm256" / "trials.csv")
    rates = trials.groupby(["method", "budget"])["lr"].agg(["min", "max"])
    chosen = finals["char_lstm256"].groupby(["method", "budget"])["lr"].first()
    edge = (chosen >= rates["max"]) & (rates["max"] > rates["min"])
    assert f"in {edge.sum()} of {len(chosen)} pairs of method and budget the best" in text


@pytest.mark.slow
def test_the_verdict_on_duels(finals: dict[str, pd.DataFrame]) -> None:
    text = page()
    def lines(names: tuple[str, ...]) -> pd.DataFrame:
        told = tables.duels({name: finals[name] for name in names})
        return told.groupby("one")[["won", "lost"]].sum()

    two, lstm, three = lines(NAMES[:2]), lines(NAMES[2:]), lines(NAMES)
    won, lost = two.loc["sketched"]
    assert f"({won} duels won, {lost} lost), and is on the LSTM" in text and lost == 0
    assert "on the LSTM ({} won, {} lost)".format(*lstm.loc["sketched"]) in text
    assert "loses {1} duels of all three tasks and wins {0}".format(*three.loc["drive"]) in text
    assert "wins {} duels and loses {}. structured_mask".format(*three.loc["randk"]) in text
    assert "wins {} and loses {}; ef_randk".format(*three.loc["structured_mask"]) in text
    assert "wins {} and loses {}. * **SBC".format(*three.loc["ef_randk"]) in text
    places = tables.places(finals)
    assert next(iter(places)) == "sketched"
    assert lines(NAMES[:1]).loc["sbc", "lost"] == 0
    metric = means(finals["fashion_lenet5"])[0.0001]
    assert f"{metric['sbc']:.1f} % where the best has {metric.max():.1f} %" in text


def test_the_verdict_on_noise(finals: dict[str, pd.DataFrame]) -> None:
    trials = pd.read_csv(RESULTS / "digits" / "trials.csv")
    ours = trials[(trials["method"] == "sketched") & (trials["budget"] == 0.0001)]
    assert f"On digits {ours['metric'].isna().sum()} of its {len(ours)} trials" in page()
    scores = tables.scores(finals["fashion_lenet5"])
    best = scores[tables.leader(scores, 1.0), 1.0]
    dropping = scores["gradient_dropping", 1.0]
    assert tied(best, dropping)
    low, high = (100 * sum(values) / len(values) for values in (dropping, best))
    assert f"gradient_dropping with {low:.1f} % counts as level with {high:.1f} %" in page()

"""Distortion and ranks: the experiment's parts by hand, and its page's numbers by other code."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import t

from compressors import compress, decompress, parse
from fedsim.federation import ClientData, Trainer
from tests.support.experiments import experiment
from tests.support.markdown import ROOT

HOME = ROOT / "experiments" / "distortion"


@pytest.fixture(scope="module")
def messages() -> Any:
    return experiment("distortion", "messages")


@pytest.fixture(scope="module")
def analysis() -> Any:
    return experiment("distortion", "analysis")


def test_the_first_family_is_unbiased_and_the_second_is_not(messages: Any) -> None:
    """The mean of 100 draws has a hundredth of the squared error, or keeps its bias."""
    draws, update = 100, {"w": torch.randn(16, 64, generator=torch.Generator().manual_seed(1))}
    ratios = {}
    for name in messages.METHODS:
        strengths = messages.strengths(name)
        text, _ = messages.rows.ROWS[name].at([*strengths.values()][len(strengths) // 2])
        codec = parse(text)
        decoded = torch.stack(
            [
                decompress(codec, compress(codec, update, seed=i)[0].payload, update)["w"]
                for i in range(draws)
            ]
        )
        error = (decoded - update["w"]).square().sum(dim=(1, 2)).mean()
        ratios[name] = float((decoded.mean(0) - update["w"]).square().sum() / error)
    assert all(ratios[name] < 1.5 / draws for name in messages.UNBIASED), ratios
    assert all(ratios[name] > 10 / draws for name in messages.MEMORY), ratios


def test_nu_is_the_mean_distortion_over_messages(messages: Any) -> None:
    """MNIST's cohort is 5 and digits have 4 clients; R is 10: (1 + 2 + 6) / 3 / 50 and / 40."""
    same = {"method": "qsgd", "strength": "3", "n": 7}
    lines = pd.DataFrame([{"task": t, "rounds": 10, **same} for t in ("mnist", "digits_iid")])
    errors = {"error_0": 1.0, "error_1": 2.0, "error_2": 6.0}
    told = pd.DataFrame([{"task": t, **same, **errors} for t in ("digits_iid", "mnist")])
    assert messages.noise(lines, told)["nu"].tolist() == pytest.approx([3 / 50, 3 / 40])


def test_the_distortion_of_a_message_by_hand(messages: Any) -> None:
    """Top-k of one entry in four leaves 1 + 4 + 4 of 25."""
    error, bits = messages.distortion(
        "flat(topk(0.25) | float32 | golomb)", {"w": torch.tensor([1.0, -2, 4, 2])}, 0
    )
    assert error == pytest.approx(9 / 25) and bits > 32 and bits % 8 == 0


@pytest.mark.slow
def test_updates_are_recorded_along_one_training(messages: Any) -> None:
    """After 3 and 5 local iterations: as when the client trains for so long at once."""
    record = messages.record
    config = record.dense(messages.rows.TASKS["digits_skewed"], None)
    one, two, three = record.recorded(config, [5, 3])
    trainer = Trainer(config, ClientData.of(config))
    weights = {name: p.detach().clone() for name, p in trainer.parameters.items()}
    for delay in (3, 5):
        update = trainer.train(0, weights, {}, 0, delay).update
        for name, x in update.items():
            assert torch.allclose(one[delay][name], x, atol=1e-6)
    assert {*two} == {*three} == {3, 5}
    assert not any(torch.equal(two[3][name], three[3][name]) for name in weights)


def lines_of(messages: Any, slope: float, held: float) -> pd.DataFrame:
    """Two tasks whose log-odds lie on two lines in log10 nu, the order of methods by turns."""
    lines = []
    for task, level in (("mnist", 1.0), ("chars", -1.0)):
        for i, method in enumerate(messages.METHODS):
            power = -2 + 0.25 * ((i * (5 if task == "mnist" else 7)) % 12)
            unbiased = method in messages.UNBIASED
            logit = level + power * (slope if unbiased else held) + (0 if unbiased else 0.4)
            line = {"task": task, "budget": 0.01, "method": method, "nu": 10**power}
            more = {"logit": logit, "odd": logit, "even": -logit, "points": -logit}
            lines.append(line | more | {"error": 1 / 10**power, "rounds": 4})
    return pd.DataFrame(lines)


def test_statistics_of_two_exact_lines(messages: Any, analysis: Any) -> None:
    lines = lines_of(messages, 2.0, 0.5)
    free = lines.assign(nu=1 / lines["nu"])
    places = analysis.places(lines, free).set_index("task")
    assert (places["methods"] == 7).all() and (places["tau"] == 1).all()
    assert (places[["tau_distortion", "tau_untrained", "tau_halves"]] == -1).all(axis=None)
    assert (places["tau_rounds"] == 0).all() and (places["behind"] == 0).all()
    assert (places["pick"] == places["best"]).all()
    few = lines[lines["method"].isin(messages.UNBIASED)]
    width = few.groupby("task")["points"].agg(lambda x: x.max() - x.min())
    assert places["behind_untrained"].to_dict() == pytest.approx(width.to_dict())
    families = analysis.families(lines)
    assert families["slope_unbiased"].tolist() == pytest.approx([2.0, 2.0])
    assert families["slope_less"].tolist() == pytest.approx([-1.5, -1.5])
    assert families["tau_curves"].tolist() == pytest.approx([1, 1])
    other = few.pivot(index="method", columns="task", values="logit")
    pick = {"mnist": other["chars"].idxmin(), "chars": other["mnist"].idxmin()}
    assert places["pick_elsewhere"].to_dict() == pick
    table = analysis.summary(analysis.by_task(places.reset_index(), families))
    assert table["statistic"].tolist() == [*analysis.STATISTICS] and len(table) == 17


def test_an_interval_is_student_s(analysis: Any) -> None:
    mean, low, high = analysis.interval(pd.Series([0.0, 1.0, 2.0]))
    assert (mean, high - mean) == (1.0, pytest.approx(4.3027 / 3**0.5, rel=1e-4))
    assert mean - low == pytest.approx(high - mean)
    assert np.isnan(analysis.interval(pd.Series([1.0]))[1])


def test_what_a_budget_allows_keeps_to_it(messages: Any) -> None:
    """Rounds are powers of two of four iterations or more, and bits both ways fit."""
    lines = messages.candidates("digits_iid", None)
    assert {*lines["rounds"]} <= {2**i for i in range(7)} and (lines["n"] >= 4).all()
    assert {*lines["method"]} == {*messages.UNBIASED}
    rows = messages.rows
    dense = 2 * 32 * 21386 * 500
    for line in lines[lines["method"] == "fedpaq"].itertuples():
        up = 21386 * (1 + np.ceil(np.log2(int(line.strength) + 1)))
        assert 2 * line.rounds * up <= 1.02 * line.budget * dense
    assert rows.TASKS["digits_iid"].iterations == 500


def csv(name: str) -> pd.DataFrame:
    return pd.read_csv(HOME / "results" / f"{name}.csv", dtype={"strength": str})


def concordance(score: pd.Series, error: pd.Series) -> float:
    """Kendall's tau-b, pair by pair."""
    signs = [np.sign(np.subtract.outer(x.to_numpy(), x.to_numpy())) for x in (score, error)]
    counts = [np.square(sign).sum() for sign in signs]
    return float((signs[0] * signs[1]).sum() / np.sqrt(counts[0] * counts[1])) if min(counts) else 0


@pytest.fixture(scope="module")
def recomputed() -> pd.DataFrame:
    """The unbiased methods of every place, from like-for-like's finals and the messages."""
    answers = {"mnist": 2000, "chars": 400 * 64, "cifar": 2000}
    classes, senders = {"chars": 97}, {"mnist": 5}
    messages, frames = csv("distortions"), []
    for task in messages["task"].unique():
        path = ROOT / "experiments" / "like-for-like" / "results" / task / "finals.csv"
        runs = pd.read_csv(path, dtype={"strength": str}).query("budget < 1")
        right, count = runs["metric"].fillna(1 / classes.get(task, 10)), answers.get(task, 360)
        wrong = ((1 - right) * count + 0.5) / (count + 1)
        runs = runs.assign(logit=np.log(wrong / (1 - wrong)), points=100 * right)
        runs["strength"] = runs["strength"].fillna("").str.removesuffix(".0")
        lost = messages[messages["task"] == task].fillna({"strength": ""})
        lost = lost.assign(lost=lost[["error_0", "error_1", "error_2"]].mean(axis=1))
        lost["strength"] = lost["strength"].str.removesuffix(".0")
        runs = runs.merge(lost[["method", "strength", "n", "lost"]], on=["method", "strength", "n"])
        runs["noise"] = runs["lost"] / runs["rounds"] / senders.get(task, 4)
        frames.append(runs)
    runs = pd.concat(frames)
    by = ["task", "budget", "method"]
    halves = {f"half{i}": runs[runs["seed"] % 2 == i].groupby(by)["logit"].mean() for i in (0, 1)}
    columns = ["logit", "points", "noise", "lost", "rounds"]
    return runs.groupby(by)[columns].mean().assign(**halves).reset_index()


def unbiased(frame: pd.DataFrame) -> pd.DataFrame:
    names = ["floats", "qsgd", "fedpaq", "natural", "eden", "uveqfed", "sketched"]
    return frame[frame["method"].isin(names)]


def centred(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(
        level=frame["logit"] - frame.groupby(["task", "budget"])["logit"].transform("mean")
    )


def test_the_places_follow_from_finals_and_messages(recomputed: pd.DataFrame) -> None:
    places = csv("places").set_index(["task", "budget"])
    few = centred(unbiased(recomputed))
    free = csv("untrained").set_index(["task", "budget", "method"])["nu"].sort_index()
    for (task, budget), at in few.groupby(["task", "budget"]):
        row, at = places.loc[(task, budget)], at.set_index("method")
        others = few[(few["task"] != task) & (few["budget"] == budget)]
        scores = {
            "": at["noise"],
            "_untrained": free[task, budget].reindex(at.index),
            "_elsewhere": others.groupby("method")["level"].mean().reindex(at.index),
        }
        for name, score in scores.items():
            assert row[f"tau{name}"] == pytest.approx(concordance(score, at["logit"]), abs=1e-4)
            behind = at["points"].max() - at["points"][score.idxmin()]
            assert row[f"behind{name}"] == pytest.approx(behind, abs=1e-3)
        assert row["tau_distortion"] == pytest.approx(concordance(at["lost"], at["logit"]))
        rounds = concordance(-at["rounds"], at["logit"])
        assert row["tau_rounds"] == pytest.approx(rounds, abs=1e-4)
        assert row["tau_halves"] == pytest.approx(concordance(at["half0"], at["half1"]), abs=1e-4)
        random = at["points"].max() - at["points"].mean()
        assert row["behind_random"] == pytest.approx(random, abs=1e-3)


def test_the_least_nu_that_a_budget_allows(recomputed: pd.DataFrame) -> None:
    """No line of it has more rounds than fit, and its noise is that of its message."""
    lost = csv("distortions").fillna({"strength": ""})
    lost = lost.assign(lost=lost[["error_0", "error_1", "error_2"]].mean(axis=1))
    lines = csv("untrained").merge(lost, on=["task", "method", "strength", "n"])
    senders = lines["task"].map({"mnist": 5}).fillna(4)
    assert np.allclose(lines["nu"], lines["lost"] / lines["rounds"] / senders, rtol=1e-4)
    assert len(lines) == len(unbiased(recomputed))


def student(values: pd.Series) -> list[float]:
    half = t.ppf(0.975, len(values) - 1) * values.std() / len(values) ** 0.5
    return [values.mean(), values.mean() - half, values.mean() + half]


def slopes(lines: pd.DataFrame) -> tuple[float, float, float]:
    """The fitted slopes and the step of memory, by taking off every place's means."""
    memory = ~lines["method"].isin(unbiased(lines)["method"])
    power = np.log10(lines["noise"])
    x = pd.DataFrame({"few": power.where(~memory, 0), "held": power.where(memory, 0), "at": memory})
    label = [lines["task"], lines["budget"]]
    x = x.astype(float) - x.astype(float).groupby(label).transform("mean")
    y = lines["logit"] - lines.groupby(["task", "budget"])["logit"].transform("mean")
    few, held, at = np.linalg.solve(x.T @ x, x.T @ y)
    return float(few), float(held), float(at)


def test_the_summary_follows_from_the_places(recomputed: pd.DataFrame) -> None:
    summary, places = csv("summary").set_index("statistic"), csv("places")
    places["tau_over_rounds"] = places["tau"] - places["tau_rounds"]
    means = places.groupby("task").mean(numeric_only=True)
    means[["slope_unbiased", "slope_memory"]] = [
        slopes(recomputed[recomputed["task"] == task])[:2] for task in means.index
    ]
    means["slope_less"] = means["slope_memory"] - means["slope_unbiased"]
    lines = centred(recomputed)
    for task in means.index:
        mine, others = lines[lines["task"] == task], lines[lines["task"] != task]
        few, held, step = slopes(others)
        memory = ~mine["method"].isin(unbiased(mine)["method"])
        score = np.log10(mine["noise"]) * np.where(memory, held, few) + step * memory
        past = others.groupby(["budget", "method"])["level"].mean()
        past = mine.set_index(["budget", "method"]).index.map(past)
        mine = mine.assign(score=score, past=past).groupby("budget")
        means.loc[task, "tau_curves"] = (
            mine[["score", "logit"]].apply(lambda x: concordance(x["score"], x["logit"])).mean()
        )
        means.loc[task, "tau_twelve"] = (
            mine[["past", "logit"]].apply(lambda x: concordance(x["past"], x["logit"])).mean()
        )
    means["tau_curves_less"] = means["tau_curves"] - means["tau_twelve"]
    data = means.groupby(means.index.str.removesuffix("_iid").str.removesuffix("_skewed")).mean()
    for name, row in summary.iterrows():
        assert [row["mean"], row["low"], row["high"]] == pytest.approx(
            student(means[name]), abs=2e-3
        ), name
        assert [row["set_mean"], row["set_low"], row["set_high"]] == pytest.approx(
            student(data[name]), abs=2e-3
        ), name
    assert (summary["tasks"] == len(means)).all() and (summary["sets"] == len(data)).all()


def test_the_page_has_the_numbers_of_the_summary() -> None:
    """Outside its tables."""
    pages = ("experiments/distortion/README.md", "docs/measure.md", "docs/experiments.md")
    read = [(ROOT / name).read_text(encoding="utf-8") for name in pages]
    plain = [re.sub(r"^\| (?!\[).*", "", x, flags=re.MULTILINE) for x in read]
    text, measure, overview = (" ".join(x.split()) for x in plain)
    summary, places = csv("summary").set_index("statistic"), csv("places")
    ends, sets = {}, {}
    for name, row in summary.iterrows():
        ends[name] = f"{row['mean']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
        sets[name] = f"{row['set_low']:.2f} to {row['set_high']:.2f}"
    first = ends["tau"].replace("(", "(95 % interval ")
    free = summary.loc["behind_untrained"]
    less = ends["tau_over_rounds"].replace(" (", ", ")
    more = f"which is {-summary['mean']['tau_curves_less']:.2f} more"
    worst = places.loc[places["behind"].idxmax()]
    hits = [(places[name] == places["best"]).sum() for name in ("pick", "pick_untrained")]
    for words in (
        f"cannot be told: Kendall's tau is {first}.**",
        f"({sets['tau']} over data sets)",
        f"D alone has {ends['tau_distortion']}",
        f"More rounds alone have {ends['tau_rounds']}, over data sets {sets['tau_rounds']}",
        f"(nu less 1 / R: {less}",
        f"agree with the other half by {ends['tau_halves']}",
        f"the best method at {hits[0]} of the {len(places)} places, and {ends['behind']} points",
        f"{worst['behind']:.0f} points behind at 1/3000 on `{worst['task']}`",
        f"a tau of {ends['tau_untrained']}, over data sets {sets['tau_untrained']}",
        f"picks the best one at {hits[1]} of",
        f"Its picks are {ends['behind_untrained']} points behind the best",
        f"a method at random {ends['behind_random']}",
        f"at other tasks has {ends['tau_elsewhere']}, and its pick is {ends['behind_elsewhere']}",
        f"{ends['slope_unbiased']} for unbiased methods and {ends['slope_memory']}",
        f"a difference of {ends['slope_less']}, over data sets {sets['slope_less']}",
        f"rank its twelve methods with {ends['tau_curves']}",
        f"ranks them with {ends['tau_twelve']}, {more}",
        f"contains 0 ({sets['tau_curves_less']})",
    ):
        assert words in text, words
    assert ends["tau_untrained"] in measure and ends["behind_untrained"] in measure
    assert first in overview
    assert f"a method {free['low']:.2f} to {free['high']:.2f} points behind" in overview
    high = summary["high"]
    assert summary["low"]["tau"] < 0 < high["tau"] and high["behind_untrained"] > 1
    assert high["tau_over_rounds"] > 0 and summary["set_high"]["tau_curves_less"] > 0

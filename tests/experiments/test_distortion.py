"""Distortion and ranks: the experiment's parts by hand, and the committed numbers again."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

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


def test_the_committed_tables_follow_from_finals_and_messages(messages: Any, analysis: Any) -> None:
    """Again from like-for-like's finals and the distortions of recorded messages."""
    file = HOME / "results" / "distortions.csv"
    distortions = pd.read_csv(file, dtype={"strength": str}, keep_default_na=False)
    runs = messages.finals([*distortions["task"].unique()])
    lines = messages.noise(messages.cells(runs), distortions).merge(analysis.outcomes(runs))
    free = pd.read_csv(
        HOME / "results" / "untrained.csv", dtype={"strength": str}, keep_default_na=False
    )
    again = messages.noise(free.drop(columns=["error", "nu"]), distortions)
    assert again["nu"].tolist() == pytest.approx(free["nu"].tolist(), rel=1e-4)
    places = analysis.places(lines, again)
    tasks = analysis.by_task(places, analysis.families(lines))
    made = {"places": places, "tasks": tasks, "summary": analysis.summary(tasks)}
    for name, frame in made.items():
        pd.testing.assert_frame_equal(csv(name), frame, rtol=1e-3, atol=1e-4, check_dtype=False)


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
        f"rank its fifteen methods with {ends['tau_curves']}",
        f"ranks them with {ends['tau_fifteen']}, {more}",
        f"contains 0 ({sets['tau_curves_less']})",
    ):
        assert words in text, words
    assert ends["tau_untrained"] in measure and ends["behind_untrained"] in measure
    assert first in overview
    assert f"a method {free['low']:.2f} to {free['high']:.2f} points behind" in overview
    high = summary["high"]
    assert summary["low"]["tau"] < 0 < high["tau"] and high["behind_untrained"] > 1
    assert high["tau_over_rounds"] > 0 and summary["set_high"]["tau_curves_less"] > 0

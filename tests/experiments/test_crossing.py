"""crossing: how rates are tuned, which methods meet, and what the test finds, by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedsim import RunConfig
from tests.support.experiments import experiment

rows, stages, law, run = (experiment("crossing", p) for p in ("rows", "stages", "law", "run"))
again = experiment("crossing", "again")
RESULTS = Path(run.__file__).parent / "results"


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("crossing")
    return stages.Stages("digits_iid", rows.SCALES["short"], 125, out, 1, None)


def test_a_rate_at_the_edge_moves_the_edge() -> None:
    tried = {(5, 1 / 3): 0.9, (5, 1.0): 0.8, (5, 3.0): 0.7, (25, 1.0): 0.75, (25, 3.0): 0.9}
    assert stages.best(tried) == (5, 3.0) and stages.beyond(tried) == [(5, 9.0)]
    assert stages.beyond(tried | {(5, 9.0): 0.71}) == []
    tied = {(25, 1.0): 0.5, (5, 1.0): 0.5, (5, 3.0): 0.5}
    assert stages.best(tied) == (5, 1.0) and stages.beyond(tied) == [(5, 1 / 3)]


def test_all_rounds_of_a_run_fit_its_budget_and_use_it(short: Any) -> None:
    for method in ("mask2", "sbc"):
        for delay in short.delays(case := stages.Case(method, 0.001)):
            cell = short.cell(case, (delay, 1.0), 1)
            bits = short._budgets._sizes.bits(rows.ROWS[method].text, cell.config.gradient, "own")
            assert cell.config.iterations == 125
            assert 0.8 < bits * (125 // delay) / (0.001 * short.dense) <= 1


def test_methods_whose_rounds_do_not_fit_have_no_run(short: Any) -> None:
    """DRIVE sends a bit per entry: at a hundredth it waits, at a thousandth it cannot."""
    assert short.delays(stages.Case("drive", 0.01)) == [5, 25]
    assert short.delays(stages.Case("drive", 0.001)) == []
    assert short.delays(stages.Case("dense", None)) == [5, 25]


@pytest.mark.parametrize("name", sorted({s.task for s in rows.SETTINGS.values()}))
def test_every_setting_is_scored_by_its_share_of_right_answers(name: str) -> None:
    """Two samples, of the second the last answer wrong; a window of text has one per place."""
    task = RunConfig.of(task=name, method="raw", temporal=1, iterations=1).plan.task
    single = {s.answers for s in rows.SETTINGS.values() if s.task == name} == {1}
    right = torch.tensor([1, 2]) if single else torch.tensor([[1, 2], [1, 2]])
    told = right.clone()
    told.view(-1)[-1] = 0
    scores = torch.nn.functional.one_hot(told, 3).float()
    assert float(task.metric(scores, right)) == (1 if single else 1.5)
    assert (task.metric_name, task.reported(0.5), task.higher_is_better) == ("accuracy", 0.5, True)


def finals(metrics: dict[tuple[str, float], list[float]]) -> pd.DataFrame:
    """Runs of digits at two budgets; at 0.01 a hundredth in 200 rounds: R p is 2."""
    return pd.DataFrame(
        [
            {
                "setting": "digits_iid",
                "iterations": 125,
                "budget": budget,
                "method": method,
                "seed": seed,
                "metric": metric,
                "rounds": 200,
                "p": budget,
                "bits": 80.0 if method == "sbc" else 60.0,
            }
            for (method, budget), values in metrics.items()
            for seed, metric in enumerate(values, 1)
        ]
    )


TRIALS = pd.DataFrame([
    {"setting": "digits_iid", "iterations": 125, "budget": 0.01, "method": method,
     "kind": rows.ROWS[method].kind, "loss": loss}
    for method, loss in {"mask1": 0.5, "mask2": 0.4, "sbc": 0.6, "stc": None, "drive": 0.1}.items()
])  # fmt: skip


def test_the_best_of_either_kind_on_validation_meet() -> None:
    met = law.chosen(TRIALS).iloc[0]
    assert (met["mask"], met["topk"]) == ("mask2", "sbc")


def test_the_gain_by_hand() -> None:
    """36 of 360 wrong with the mask, 72 with top-k; the second seed of top-k diverged."""
    made = finals({("mask2", 0.01): [0.9, 0.9], ("sbc", 0.01): [0.8, np.nan]})
    told = law.differences(TRIALS, made)
    odds = [np.log(wrong / (361 - wrong)) for wrong in (36.5, 72.5, 324.5)]
    assert told["gain"].tolist() == pytest.approx([odds[1] - odds[0], odds[2] - odds[0]])
    assert told["x"].tolist() == pytest.approx([np.log10(2)] * 2)
    assert told["points"].tolist() == pytest.approx([10, 80])  # a guess is right in 1 of 10
    assert told["bits"].tolist() == pytest.approx([0.75] * 2)
    every = made.assign(n=5, factor=1.0)
    assert law.means(every)["mean"].tolist() == pytest.approx([90, 45])


def test_a_method_may_leave_a_part_of_its_budget() -> None:
    """mask2 has the least loss at its smaller budget, sbc at the larger one."""
    losses = {("mask2", 0.01): 0.6, ("mask2", 0.001): 0.4, ("sbc", 0.01): 0.5, ("sbc", 0.001): 0.7}
    trials = pd.concat(
        TRIALS[TRIALS["method"] == method].assign(budget=budget, loss=loss)
        for (method, budget), loss in losses.items()
    )
    made = finals(
        {
            ("mask2", 0.01): [0.8],
            ("mask2", 0.001): [0.9],
            ("sbc", 0.01): [0.85],
            ("sbc", 0.001): [0.7],
        }
    )
    told = law.differences(*law.as_limits(trials, made)).set_index("budget")
    assert told["points"].to_dict() == pytest.approx({0.01: 5, 0.001: 20})
    assert told["x"].to_dict() == pytest.approx(dict.fromkeys((0.01, 0.001), np.log10(0.2)))


def drawn(slope: float, seed: int = 0) -> pd.DataFrame:
    """Gains of three settings over nine places each: ``slope`` times x less 0.3, with noise."""
    numbers = np.random.default_rng(seed)
    lines = [
        {
            "setting": setting,
            "iterations": iterations,
            "budget": budget,
            "seed": run_seed,
            "x": (x := np.log10(16 * iterations * budget)),
            "gain": slope * (x - 0.3) + noise,
        }
        for setting in ("a", "b", "c")
        for iterations in (125, 500, 2000)
        for budget in (0.01, 0.001, 0.0001)
        for run_seed in range(4)
        for noise in [numbers.normal(0, 0.2)]
    ]
    return pd.DataFrame(lines)


def test_the_test_finds_a_slope_and_where_it_crosses() -> None:
    found = law.law(drawn(-0.5))
    assert found.slope == pytest.approx(-0.5, abs=0.05) and found.chance < 1e-6
    assert found.low < 0.3 < found.high and found.high - found.low < 0.4
    assert (found.places, found.runs) == (27, 108)


def test_where_the_mask_gains_with_every_round_nothing_crosses() -> None:
    made = law.law(drawn(0.5))
    assert made.slope > 0 and np.isnan(made.crossing)
    table = run.verdict(pd.DataFrame([{"of": "all", **vars(made)}]))
    assert "| none | none: any is in it |" in table


def test_the_crossing_is_of_lines_that_start_where_each_setting_does() -> None:
    """Two settings fall from -0.3 and +3.7 at places of their own: all in one line would rise."""
    made = drawn(-0.5)
    low = made[(made["setting"] == "a") & (made["budget"] == 0.0001)]
    high = made[(made["setting"] == "b") & (made["budget"] == 0.01)]
    both = pd.concat([low, high.assign(gain=high["gain"] + 4)])
    assert np.polyfit(both["x"], both["gain"], 1)[0] > 0
    assert all(np.isfinite(law.interval(both, 200)))


def test_places_of_equal_bits_are_by_the_mean_over_seeds() -> None:
    made = drawn(0.0).assign(bits=1.0)
    far = (made["setting"] == "a") & (made["budget"] == 0.01)
    made.loc[far, "bits"] = np.where(made.loc[far, "seed"] == 1, 1.0, 1.4)
    kept = law.of_equal_bits(made)
    assert len(kept) == (~far).sum() and not (kept.index.isin(made.index[far])).any()


def test_the_test_finds_none_where_there_is_none() -> None:
    """Over 150 draws 4 % are below 0.05."""
    chances = [law.law(drawn(0.0, seed)).chance for seed in (0, 1)]
    assert min(chances) > 0.05


def test_collapses_by_hand() -> None:
    """Median 90: 79 has collapsed and 81 has not; a run that diverged has."""
    made = finals({("sbc", 0.01): [0.9, 0.9, 0.79], ("stc", 0.01): [0.9, 0.81, np.nan]})
    told = law.collapses(made).set_index("method")
    assert told["collapsed"].to_dict() == {"sbc": 1, "stc": 1}
    assert told.loc["sbc", "low"] == pytest.approx(0.0084, abs=1e-4)


@pytest.mark.skipif(not (RESULTS / "differences.csv").exists(), reason="no runs are committed yet")
def test_the_pages_numbers_are_those_of_the_runs() -> None:
    """Differences, collapses and the test, again from trials and finals."""
    made = run.tables(*run.read(RESULTS))
    for name, frame in made.items():
        kept = pd.read_csv(RESULTS / f"{name}.csv")
        pd.testing.assert_frame_equal(kept, frame, rtol=1e-3, check_dtype=False)


def test_lengths_of_another_scale_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "digits_iid").mkdir()
    for name in run.FRAMES:
        for n in (8, 125):
            frame = pd.DataFrame({"iterations": [n]})
            frame.to_csv(tmp_path / "digits_iid" / f"{name}-{n}.csv", index=False)
    for scale, length in (("short", 125), ("smoke", 8)):
        assert [[*f["iterations"]] for f in run.read(tmp_path, scale)] == [[length], [length]]


@pytest.mark.slow
def test_a_methods_runs_are_put_where_they_were(tmp_path: Path) -> None:
    """One of three methods is taken out of the results, and put back: the same bytes."""
    results = tmp_path / "results"
    place = "digits_iid", rows.SCALES["smoke"], 8, tmp_path / "runs", 1, None
    folder = results / "digits_iid"
    folder.mkdir(parents=True)
    every = run.Stages(*place, ["dense", "stc", "topk4"])
    for name, frame in zip(run.FRAMES, every.frames(), strict=True):
        run.write_csv(folder / f"{name}-8.csv", frame)
    listed = (tmp_path / "runs" / "8" / "finals" / "runs.toml").read_text()
    (folder / "runs-8.toml").write_text(listed)
    whole = {path.name: path.read_text() for path in folder.iterdir()}
    for name in run.FRAMES:
        frame = pd.read_csv(folder / f"{name}-8.csv")
        assert "stc" in set(frame["method"])
        run.write_csv(folder / f"{name}-8.csv", frame[frame["method"] != "stc"])
    again.merge(run.Stages(*place, ["stc"]), results)
    assert {path.name: path.read_text() for path in folder.iterdir()} == whole


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["stcc"], "methods is stcc: known are dense"),
        (["stc", "--only", "digits_idd,125"], "--only is digits_idd: known are digits_iid"),
    ],
)
def test_unknown_methods_and_places(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        again.main(words)
    assert told in capsys.readouterr().err

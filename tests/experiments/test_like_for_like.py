"""like-for-like: how methods are tuned, what a budget allows, and what the analysis finds."""

from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, ttest_1samp

from fedsim import UsageError
from tests.support.experiments import experiment
from tests.support.markdown import ROOT

rows, stages, analysis, run = (
    experiment("like-for-like", part) for part in ("rows", "stages", "analysis", "run")
)
RESULTS = ROOT / "experiments" / "like-for-like" / "results"
THIRTIETH, SMALL, TINY = 1 / 30, 1 / 300, 1 / 3000
Case, Trial = stages.Case, stages.Trial


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Any:
    asked = {name: rows.ROWS[name] for name in ("fedavg", "eden", "stc", "scalars", "majority")}
    out = tmp_path_factory.mktemp("like")
    task = rows.TASKS["digits_skewed"]
    return stages.Stages("digits_skewed", task, asked, rows.SCALES["short"], out, 1, None)


@pytest.mark.parametrize("method", ["eden", "stc", "scalars", "majority"])
@pytest.mark.parametrize("budget", [THIRTIETH, TINY])
def test_all_draws_keep_the_budget_both_ways(digits: Any, method: str, budget: float) -> None:
    row = rows.ROWS[method]
    drawn = digits.draws(Case(method, budget))
    assert len(drawn) == 16 and len({trial.factor for trial in drawn}) == 16
    for trial in drawn:
        up, down = row.at(row.strengths[trial.strength])
        bits = digits._sizes.bits(up, None, "own")
        assert down == ("relay" if method == "scalars" else up)
        back = 3 * (bits + 24) if down == "relay" else bits
        assert trial.rounds * (bits + back) <= budget * digits.dense
        assert digits.iterations // trial.rounds >= stages.LEAST_DELAY
        config = digits.cell(Case(method, budget), trial, 1).config
        assert config.iterations // config.temporal == trial.rounds


def test_methods_draw_the_same_points(digits: Any) -> None:
    one, other = (digits.draws(Case(m, THIRTIETH)) for m in ("stc", "scalars"))
    assert [t.factor for t in one] == [t.factor for t in other]


def test_dense_messages_have_no_run_where_none_fits(digits: Any) -> None:
    """500 iterations: a 300th is 1.7 messages each way, a 3000th a sixth of one."""
    had = [case.budget for case in digits.cases() if case.method == "fedavg"]
    assert had == [SMALL, THIRTIETH, 1.0]
    assert {trial.rounds for trial in digits.draws(Case("fedavg", SMALL))} == {1}


def test_a_short_run_has_the_delay_of_the_whole_one_up_to_its_length(digits: Any) -> None:
    many, few = Trial(50, 1.0, 5), Trial(2, 1.0, 5)
    case = Case("stc", SMALL)
    told = [
        (c.temporal, c.iterations)
        for trial in (many, few)
        for part in (8, 1)
        for c in [digits.cell(case, trial, part).config]
    ]
    assert told == [(10, 60), (10, 500), (62, 62), (250, 500)]


def test_a_trial_and_its_final_run_differ_in_seed_and_samples_alone(digits: Any) -> None:
    case, trial = Case("stc", SMALL), Trial(10, 3.0, 5)
    one, last = (digits.cell(case, trial, 1, seed).config for seed in (None, 2))
    assert (one.seed, last.seed) == (0, 2)
    assert (one.evaluation.validation, last.evaluation.validation) == (0.2, None)
    assert one.training.lr == last.training.lr and one.method == last.method == one.downlink


def test_an_optimum_at_an_edge_moves_the_edge(digits: Any) -> None:
    """A step where it fits: a run has a round at least, and one of strength 2 costs 2.5 times."""
    case = Case("stc", SMALL)
    low, middle, high = Trial(4, 0.1, 3), Trial(8, 1.0, 4), Trial(16, 2.5, 5)
    assert digits.beyond(case, middle, {low, middle, high}) == []
    assert digits.beyond(case, low, {low, middle, high}) == [
        Trial(2, 0.1, 3),
        Trial(4, 0.033, 3),
        Trial(4, 0.1, 2),
    ]
    assert digits.beyond(case, high, {low, middle, high}) == [
        Trial(31, 2.5, 5),
        Trial(16, 7.5, 5),
        Trial(16, 2.5, 6),
    ]
    assert Trial(0, 1.0, 4) not in digits.beyond(case, Trial(1, 1.0, 4), {Trial(1, 1.0, 4)})
    full = max(t.strength for t in digits.draws(case) if t.rounds < 20)
    assert not digits._fits(case, Trial(125, 1.0, full))


def test_the_better_half_goes_on() -> None:
    trials = [Trial(n, 1.0, 0) for n in range(1, 6)]
    losses = dict(zip(trials, (0.5, inf, 0.2, 0.4, 0.2), strict=True))
    assert stages.halved(losses) == [trials[2], trials[4]]
    assert stages.best(losses) == trials[2] and stages.halved({trials[1]: inf}) == [trials[1]]


def test_what_is_better_at_a_smaller_budget_stands_at_larger_ones(digits: Any) -> None:
    a, b, c = (Trial(n, 1.0, 0) for n in (1, 2, 3))
    small, large, other = Case("stc", TINY), Case("stc", SMALL), Case("eden", SMALL)
    told = {small: {a: 0.3}, large: {b: 0.4, c: 0.5}, other: {c: 0.6}}
    assert digits.stands(told) == {small: (small, a), large: (small, a), other: (other, c)}
    tied = digits.stands({small: {a: 0.3}, large: {b: 0.3}})
    assert tied[large] == (large, b)


def test_clients_of_a_cohort_pay_what_they_missed_and_their_first_model(digits: Any) -> None:
    each, once = digits.bits("eden", 0)
    digits.task, whole = rows.TASKS["mnist"], digits.task
    try:
        assert digits._bits("eden", 0) == (each / 2 * (1 + 4), 3 * digits._raw)
        assert once == 0
        number = digits._sizes.bits("ef(flat(projections(1, false)))", None, "own")
        relayed = 4 * 5 * (number + 24)  # five messages in each of four rounds
        assert digits._bits("scalars", 0) == (number + relayed, 3 * digits._raw)
        most = len(rows.ROWS["scalars"].strengths) - 1  # of 3,000 numbers: the model is shorter
        assert digits._bits("scalars", most)[0] < digits._raw + 32 * 3100
        assert not digits._takes(rows.ROWS["permk"]) and not digits._takes(rows.ROWS["ef21"])
    finally:
        digits.task = whole
    assert digits._takes(rows.ROWS["permk"]) and digits._takes(rows.ROWS["ef21"])


def test_sparseloco_has_one_momentum() -> None:
    """Its memory stands for DiLoCo's outer momentum: the server adds the mean."""
    assert not rows.ROWS["sparseloco"].more


def test_a_row_of_ones_own_is_read() -> None:
    ((name, row),) = rows.added("ef(topk({p}) | cnat) --strategy nesterov --downlink relay").items()
    assert (row.text, row.downlink, row.more) == (
        "ef(topk({p}) | cnat)",
        "relay",
        {"strategy": "nesterov"},
    )
    assert name == "ef-topk-p-cnat-strategy-nesterov-downlink-relay"
    rates = {*rows.added("ef21(topk({p}) | cnat) --server-lr 0.7")}
    assert rates != {*rows.added("ef21(topk({p}) | cnat) --server-lr 0-7")}
    assert row.at(0.01) == ("ef(topk(0.01) | cnat)", "relay")
    for other in rows.ROWS.values():
        assert rows._FLAG.split(other.spelled)[0] == other.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense(0.1)", "--add: .*nonsense"),
        ("topk({q}) | cnat", "give one of {p}, {bits}"),
        ("q_sparse({p}, {levels})", "give one of {p}"),
        ("sbc", r"give sbc's settings, as in 'sbc\({p}\)'"),
        ("sbc({p})", "compared already"),
    ],
)
def test_a_row_that_cannot_be_run_is_refused_before_any_work(
    text: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        run.EXPERIMENT.main("smoke", None, tmp_path / "out", 1, None, text)
    with pytest.raises(UsageError, match="takes no method of one's own"):
        experiment("cohorts").EXPERIMENT.main("smoke", None, tmp_path / "out", 1, None, text)
    assert not (tmp_path / "out").exists()


def made(metrics: dict[tuple[str, float], list[float]], task: str = "digits_iid") -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"task": task, "method": m, "budget": b, "seed": s, "metric": value}
            for (m, b), values in metrics.items()
            for s, value in enumerate(values, 1)
        ]
    )


def drawn(effects: dict[str, float], seed: int = 0) -> pd.DataFrame:
    """Six places of ten seeds, whose errors differ by place, by seed and by method."""
    numbers = np.random.default_rng(seed)
    parts = []
    for task in ("digits_iid", "digits_skewed"):
        for budget in (0.0333, 0.00333, 0.000333):
            place, seeds = numbers.normal(0, 1), numbers.normal(0, 0.3, 10)
            logits = {
                m: -2.5 + place + e + seeds + numbers.normal(0, 0.2, 10) for m, e in effects.items()
            }
            right = {(m, budget): list(1 / (1 + np.exp(x))) for m, x in logits.items()}
            parts.append(made(right, task))
    return pd.concat(parts, ignore_index=True)


def test_what_the_test_says_without_a_task() -> None:
    """On one task a is better by far, on the other no method is."""
    far, even = drawn({"a": -1.0, "b": 0.0}), drawn({"a": 0.0, "b": 0.0}, 1)
    far, even = (part[part["task"] == "digits_iid"] for part in (far, even))
    told = pd.concat([far, even.assign(task="mnist")], ignore_index=True)
    found = analysis.leaving_out(analysis.scored(told)).set_index("without")
    assert found.loc["mnist"].tolist() == ["a", ""]
    assert found.loc["digits_iid", "near"] in ("a", "b")


def test_each_place_weighs_once_however_many_seeds_it_has() -> None:
    """Two places, of four and of two seeds: b is worse by 10 and by 30 points, c by a half more."""
    four = made(
        {
            ("z", 0.0333): [0.7, 0.9, 0.7, 0.9],
            ("b", 0.0333): [0.6, 0.8, 0.6, 0.8],
            ("c", 0.0333): [0.55, 0.75, 0.55, 0.75],
        }
    )
    two = made({("z", 0.00333): [0.8, 0.9], ("b", 0.00333): [0.5, 0.6], ("c", 0.00333): [0.3, 0.5]})
    told = analysis.scored(pd.concat([four, two], ignore_index=True))
    found = analysis.each_place_once(told).set_index("method")
    assert [*found.index] == ["z", "b", "c"] and found["places"].tolist() == [2, 2, 2]
    behind, low = found.loc["b", ["behind", "low"]]
    assert behind == pytest.approx(20) and behind - low == pytest.approx(6.3138 * 10, rel=1e-4)
    at = told.groupby(["method", "place"])["logit"]
    odds, noise = at.mean().unstack(), at.agg(lambda x: x.var() / len(x)).unstack()
    chances: dict[str, list[float]] = {"seeds": [], "chance": []}
    for name in "bc":
        less = odds.loc[name] - odds.loc["z"]
        assert found.loc[name, "effect"] == pytest.approx(less.mean())
        error = (noise.loc[[name, "z"]].to_numpy().sum() / 4) ** 0.5
        chances["seeds"].append(2 * norm.sf(less.mean() / error))
        chances["chance"].append(ttest_1samp(less, 0).pvalue)
    for kind, both in chances.items():
        holm = [min(1.0, max(p, 2 * min(both))) for p in both]
        assert found.loc[["b", "c"], kind].tolist() == pytest.approx(holm)


def test_the_analysis_finds_what_was_put_in() -> None:
    """b is as good as a; c is worse by 0.3 and d by 1 in log-odds."""
    told = analysis.verdict(drawn({"a": 0.0, "b": 0.0, "c": 0.3, "d": 1.0})).set_index("method")
    assert {*told.index[:2]} == {"a", "b"} and list(told.index[2:]) == ["c", "d"]
    assert told.loc["d", "effect"] == pytest.approx(1, abs=0.12)
    assert told.loc["c", "error"] == pytest.approx(0.2 * (2 / 60) ** 0.5, rel=0.3)
    assert told["chance"].iloc[1] > 0.05 > 1e-6 > told["chance"].iloc[2:].max()
    assert told["equal"].tolist() == [True, True, False, False]
    assert told["rank"].iloc[0] < 2 and told["rank"].iloc[3] == 4


@pytest.mark.slow
def test_the_analysis_finds_nothing_where_nothing_is() -> None:
    """Over 100 draws the correction lets 5 pass, against the best of five."""
    same = dict.fromkeys("abcde", 0.0)
    chances = [
        analysis.effects(analysis.scored(drawn(same, seed)))["chance"].min() for seed in (1, 2)
    ]
    assert min(chances) > 0.05


def test_a_method_that_sits_out_the_hardest_place_is_no_better_for_it() -> None:
    told = analysis.scored(drawn({"a": 0.0, "b": 0.0, "c": 0.5}))
    hardest = told.groupby("place")["logit"].mean().idxmax()
    found = analysis.effects(told[(told["method"] != "b") | (told["place"] != hardest)])
    assert found.set_index("method").loc["b", "effect"] < 0.15


@pytest.mark.slow
def test_a_lead_at_some_places_is_none_at_others() -> None:
    """a leads by 1.5 at four places of six, and b by 1.5 at two."""
    told = analysis.scored(drawn({"a": 0.0, "b": 0.0}))
    swung = told["place"].isin(sorted(told["place"].unique())[:2])
    told.loc[told["method"] == "b", "logit"] += np.where(swung, -1.5, 1.5)[told["method"] == "b"]
    here, elsewhere = (analysis.effects(told, wide)["chance"].iloc[1] for wide in (False, True))
    assert here < 0.01 < 0.2 < elsewhere


def test_a_run_without_a_metric_counts_as_a_guess() -> None:
    told = analysis.scored(made({("a", 0.0333): [0.9, nan], ("a", 1.0): [0.99]}))
    assert told["points"].tolist() == pytest.approx([90, 10])  # dense without a budget is not in it
    assert told["logit"].iloc[1] == pytest.approx(np.log(324.5 / 36.5))


RANKED = analysis.scored(
    made(
        {
            ("a", 0.0333): [0.9, 0.9],
            ("b", 0.0333): [0.8, 0.8],
            ("c", 0.0333): [0.8, 0.8],
            ("a", 0.00333): [0.7, 0.7],
            ("b", 0.00333): [0.8, 0.9],
        }
    )
)


def test_ranks_by_hand() -> None:
    """Ties share 2.5; c, which has no run at a 300th, is third there."""
    assert analysis.ranks(RANKED).to_numpy().tolist() == [[2, 1, 3], [1, 2.5, 2.5]]


def test_ranks_are_over_the_tasks_that_every_method_was_put_to() -> None:
    one, other = ({("a", 0.1): [0.9], ("b", 0.1): [0.8]}, {("a", 0.1): [0.5], ("b", 0.1): [0.6]})
    both = pd.concat([made(one), made(other, "digits_skewed")])
    assert analysis.ranks(analysis.scored(both)).to_numpy().tolist() == [[1, 2], [2, 1]]
    added = analysis.scored(pd.concat([both, made({("mine", 0.1): [0.7]})]))
    assert analysis.ranks(added).to_numpy().tolist() == [[1, 2, 3]]
    theirs = made({(name, 0.1): [0.9 - place / 10] for place, name in enumerate(("sbc", "permk"))})
    there = made({("sbc", 0.1): [0.5], ("stc", 0.1): [0.6]}, "digits_skewed")
    last = analysis.ranks(analysis.scored(pd.concat([theirs, there])))
    assert last.to_numpy().tolist() == [[2, 1, 3], [3, 2, 1]], "permk has no run at the second"
    alone = made({("yours", 0.1): [0.7]}, "digits_skewed")
    assert analysis.ranks(pd.concat([added, analysis.scored(alone)])).size == 0


def test_points_behind_the_best_by_hand() -> None:
    told = analysis.apart(RANKED, "a").set_index("method")
    assert told.loc["b", "behind"] == pytest.approx((10 + 10 - 10 - 20) / 4)
    assert told["runs"].to_dict() == {"a": 4, "b": 4, "c": 2}
    near = analysis.scored(
        made(
            {
                ("a", 0.1): [0.9] * 4,
                ("b", 0.1): [0.895, 0.892, 0.9, 0.9],
                ("c", 0.1): [0.9, 0.87, 0.9, 0.9],
            }
        )
    )
    assert analysis.apart(near, "a")["equal"].tolist() == [True, True, False]


def test_the_critical_difference_is_demsars() -> None:
    """q at 0.05 is 2.728 for five methods (Demšar 2006, Table 5a); thirty places."""
    ranked = pd.DataFrame(np.tile([1.0, 2, 3, 4, 5], (30, 1)))
    width, chance = analysis.difference(ranked)
    assert width == pytest.approx(2.728 * (5 * 6 / (6 * 30)) ** 0.5, abs=1e-3) and chance < 1e-9


def test_the_table_of_scores_by_hand() -> None:
    frame = made(
        {
            ("a", 0.00333): [0.9, 0.9, 0.79],
            ("b", 0.00333): [0.8, 0.8, 0.8],
            ("a", 0.0333): [0.9, nan, 0.9],
        }
    )
    columns = ("bits_up", "bits_down", "used", "encode_ms", "4g_seconds", "wifi_seconds")
    spent = dict.fromkeys(columns, 1.0)
    chosen = dict.fromkeys(("tuned_at", "rounds", "n", "factor", "strength"), 1)
    lines = run.scores(analysis.means(frame.assign(**spent, **chosen))).splitlines()
    assert lines[0] == "| method | 1/30 of dense | 1/300 of dense |"
    assert lines[2] == ("| a | **63.3 ± 46.2 (90.0)**, 1 fell | **86.3 ± 6.4 (90.0)**, 1 fell |")
    assert lines[3] == "| b | — | 80.0 ± 0.0 (80.0) |"


def test_an_added_method_stands_beside_the_others() -> None:
    others = made({("a", 0.1): [0.5], ("mine", 0.1): [0.1]})
    both = run.beside(made({("mine", 0.1): [0.6]}), others)
    assert both[["method", "metric"]].to_numpy().tolist() == [["a", 0.5], ["mine", 0.6]]


RANKED_TASKS = [task for task in rows.TASKS if task != "digits_iid"]
COMMITTED = sorted(path.parent.name for path in RESULTS.glob("*/trials.csv"))


@pytest.mark.parametrize("task", COMMITTED)
def test_committed_runs_are_what_the_plan_asks_for(task: str) -> None:
    """Thirty runs or more tuned every method, all seeds ran, and bits are within budgets."""
    trials, finals = (pd.read_csv(RESULTS / task / f"{name}.csv") for name in run.FRAMES)
    assert trials.groupby(["method", "budget"]).size().min() >= 30
    seeds = finals.groupby(["method", "budget"])["seed"].nunique()
    assert {*seeds} == {rows.TASKS[task].seeds}
    assert (finals["tuned_at"] <= finals["budget"]).all()
    assert finals["used"].max() <= 1.03
    free = finals[finals["budget"] == 1].iloc[0]
    dense = 2 * free["bits_up"] / free["rounds"] * rows.TASKS[task].iterations
    spent = (finals["bits_up"] + finals["bits_down"]) / (finals["budget"] * dense)
    assert spent[finals["budget"] < 1].max() <= 1.03


@pytest.mark.skipif(len(COMMITTED) < 1, reason="no runs are committed yet")
def test_the_pages_numbers_are_those_of_the_runs() -> None:
    finals = pd.concat([pd.read_csv(RESULTS / task / "finals.csv") for task in COMMITTED])
    ranked = finals[finals["task"].isin(RANKED_TASKS)].reset_index(drop=True)
    told = analysis.verdict(ranked)
    pd.testing.assert_frame_equal(pd.read_csv(RESULTS / "verdict.csv"), told, rtol=1e-3)
    alike = analysis.each_place_once(analysis.scored(ranked))
    pd.testing.assert_frame_equal(pd.read_csv(RESULTS / "places.csv"), alike, rtol=1e-3)
    left = pd.read_csv(RESULTS / "leaving.csv").fillna("")
    assert left.equals(analysis.leaving_out(analysis.scored(ranked)))
    for task in COMMITTED:
        means = analysis.means(finals[finals["task"] == task])
        kept = pd.read_csv(RESULTS / task / "means.csv")
        pd.testing.assert_frame_equal(kept, means, rtol=1e-3, check_dtype=False)


def test_first_models_are_no_use_that_a_strength_makes_of_a_budget(digits: Any) -> None:
    """They take two thirds of this budget: by the whole cost the weakest would use a quarter."""
    case, costs = Case("stc", TINY), digits.bits
    free = 3 * max(digits.bits("stc", place)[0] for place in digits.strengths(case, 1))
    before = digits.strengths(case, 4)
    digits.bits = lambda method, place: (costs(method, place)[0], free)
    try:
        room = Case("stc", TINY + free / digits.dense)
        assert digits.strengths(room, 4) == before and len(before) < len(rows.KNOBS["p"]) / 2
    finally:
        digits.bits = costs


def test_lines_that_a_folder_holds_are_not_run_again(digits: Any, tmp_path: Path) -> None:
    """A trial's loss and a final's line come from the tables, for the same settings alone."""
    case, trial = Case("stc", SMALL), Trial(10, 3.0, 5)
    before, digits.out, asked = digits.out, tmp_path, []
    digits.run = lambda cells, part, described=False: asked.extend(cell.name for cell in cells)
    try:
        lines = digits._lines({case: {trial: 0.25}}, 2)
        pd.DataFrame(lines).to_csv(tmp_path / "trials.csv", index=False)
        assert digits.losses({case: [trial]}, 2) == {case: {trial: 0.25}} and not asked
        with pytest.raises(AssertionError):  # there is no such run, and none was made here
            digits.losses({case: [trial._replace(factor=1.0)]}, 2)
        assert asked == ["stc-r10-x1-s5-l2"]
        lines[0]["run"] = "0badc0de"
        pd.DataFrame(lines).to_csv(tmp_path / "trials.csv", index=False)
        with pytest.raises(AssertionError):
            digits.losses({case: [trial]}, 2)
    finally:
        digits.out = before
        del digits.run

"""like-for-like: how methods are tuned, how a budget is used, and what its tables say, by hand."""

from math import inf, nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.common.frame import Asked
from fedsim import UsageError
from fedsim.settings.cellfile import from_toml
from tests.support.experiments import experiment
from tests.support.markdown import ROOT

RESULTS = ROOT / "experiments" / "like-for-like" / "results"
walk, rows, tables = (experiment("like-for-like", part) for part in ("walk", "rows", "tables"))
tasks = experiment("like-for-like", "tasks")
points, run = experiment("like-for-like", "points"), experiment("like-for-like")


def tuned(losses: dict[tuple[int, float], float], delays: list[int], most: int) -> list[Any]:
    """The trials in order, their losses by table; what is not in it is worse than all."""
    tried: dict[tuple[int, float], float] = {}
    while (trial := walk.next_trial(tried, delays, most)) is not None:
        tried[trial] = losses.get(trial, 9.0)
    return list(tried)


def test_a_walk_by_hand() -> None:
    """All delays, then rates about the best: up, on upwards while better, then half a step."""
    losses = {(1, 1.0): 0.5, (10, 1.0): 0.3, (50, 1.0): 0.4, (10, 3.0): 0.2}
    half = round(3 * 3**0.5, 6)
    trials = tuned(losses, [1, 10, 50], 6)
    assert trials == [(1, 1.0), (10, 1.0), (50, 1.0), (10, 3.0), (10, 9.0), (10, half)]
    assert tuned({(1, 1.0): 0.1}, [1], 4) == [(1, 1.0), (1, 3.0), (1, 0.333333), (1, 1.732051)]


def test_every_method_has_as_many_trials() -> None:
    for delays in ([1], [1, 3], [1, 3, 10, 30, 60]):
        assert len(tuned({}, delays, 8)) == 8


def test_where_all_diverge_the_rate_falls() -> None:
    tried = {(1, 1.0): inf, (5, 1.0): inf}
    assert walk.next_trial(tried, [1, 5], 8) == (1, 0.333333)


@pytest.fixture(scope="module")
def smoke() -> Any:
    return points.Points(Asked("smoke", "digits", [], Path()), rows.ROWS)


@pytest.mark.parametrize("row", ["dense", "sbc", "drive", "cocktailsgd"])
def test_a_run_fits_its_budget_and_uses_it(smoke: Any, row: str) -> None:
    text = rows.ROWS[row].text
    for budget in (1.0, 0.01):
        for delay in smoke.delays(row, budget):
            use = smoke.use(row, budget, delay)
            bits = smoke._sizes.bits(text, use.fraction, "own")
            assert bits * use.rounds <= budget * smoke.dense
            if use.fraction is None:  # one round more is too long, or the task is at its end
                longest = use.rounds == smoke.size.iterations // delay
                assert longest or bits * (use.rounds + 1) > budget * smoke.dense


def test_a_budget_below_one_message_has_no_run(smoke: Any) -> None:
    assert smoke.delays("dense", 0.01) == [] and smoke.delays("dense", 1.0) == [1]


def test_a_run_and_its_trial_differ_in_seed_and_samples_alone(smoke: Any) -> None:
    trial, final = (smoke.run("sbc", 0.01, (4, 3.0), seed).config for seed in (None, 2))
    assert (trial.seed, final.seed) == (0, 2)
    assert (trial.evaluation.validation, final.evaluation.validation) == (0.2, None)
    assert trial.training.lr == final.training.lr == pytest.approx(3 * smoke.rate("sbc", 1.0))
    assert smoke.run("signsgd", 1.0, (1, 3.0)).config.method == "signsgd(0.009)"


def test_budgets_that_are_used_alike_share_a_run(smoke: Any) -> None:
    """A hundredth of dense is more than 3LC can send: its run is that of the whole budget."""
    assert smoke.use("threelc", 0.01, 4) == smoke.use("threelc", 1.0, 4)
    assert smoke.run("threelc", 0.01, (4, 1.0)) == smoke.run("threelc", 1.0, (4, 1.0))
    assert smoke.run("randk", 0.01, (4, 1.0)) != smoke.run("randk", 1.0, (4, 1.0))


def made(metrics: dict[tuple[str, float], list[float]]) -> pd.DataFrame:
    return pd.DataFrame([
        {"method": m, "budget": b, "seed": s, "metric": value}
        for (m, b), values in metrics.items() for s, value in enumerate(values, 1)
    ])  # fmt: skip


FINALS = made({
    ("dense", 1.0): [0.90, 0.92, 0.94], ("sbc", 1.0): [0.80, 0.82, 0.841],
    ("drive", 1.0): [0.905, 0.91, 0.95], ("sbc", 0.1): [0.5, 0.5, nan],
})  # fmt: skip


def test_the_table_of_budgets_by_hand() -> None:
    """Dense and drive cannot be told apart; a run of sbc diverged at a tenth."""
    lines = tables.budgets(FINALS).splitlines()
    assert lines[2] == "| dense | **92.0 ± 5.0** | — |"
    assert lines[3] == "| sbc | 82.0 ± 5.1 | 1 of 3 diverged |"


def test_the_best_of_each_kind_by_hand() -> None:
    lines = tables.kinds(FINALS).splitlines()
    assert lines[2:] == ["| dense | dense 92.0 | — |", "| both | sbc 82.0 | — |",
                         "| fewer bits | drive 92.2 | — |"]  # fmt: skip


def test_duels_and_ranks_by_hand() -> None:
    """sbc is 0.1 below dense on every seed, and by less than the noise of drive's differences."""
    finals = FINALS[FINALS["budget"] == 1.0]
    told = tables.duels({"a": finals}).set_index(["one", "other"])
    assert list(told.loc[("dense", "sbc")]) == [1, 0, 0]
    assert list(told.loc[("dense", "drive")]) == [0, 0, 1]
    assert tables.ranks({"a": finals}).splitlines()[3] == "| dense | 2.0 | 1 | 1 | 0 |"
    ranked = tables.ranked({"a": finals}).set_index("method")["rank"]
    assert dict(ranked) == {"drive": 1.0, "dense": 2.0, "sbc": 3.0}


def test_bits_to_a_part_of_dense_by_hand() -> None:
    """The fewest over the budgets at which all seeds get there: the root of 100 x 200 x 400."""
    def curve(method: str, budget: float, seed: int, at: list[tuple[float, float]]) -> list[Any]:
        return [{"method": method, "budget": budget, "seed": seed, "bits": b, "metric": m}
                for b, m in at]  # fmt: skip

    curves = pd.DataFrame([
        *(row for seed in (1, 2, 3) for row in curve("sbc", 1.0, seed, [(900, 0.97)])),
        *curve("sbc", 0.01, 1, [(50, 0.97)]), *curve("sbc", 0.01, 2, [(60, 0.99)]),
        *(row for seed, bits in ((1, 100), (2, 200), (3, 400))
          for row in curve("sbc", 0.1, seed, [(bits / 2, 0.5), (bits, 0.96)])),
    ])  # fmt: skip
    finals = made({("dense", 1.0): [1.0, 1.0, 1.0], ("sbc", 0.1): [0.96, 0.96, 0.96]})
    value, said = tables.reached(finals, curves, "sbc", 0.95)
    assert value == pytest.approx(200) and said.startswith("200 bit")
    assert tables.reached(finals, curves, "sbc", 0.97)[0] == pytest.approx(900)
    assert tables.reached(finals, curves, "sbc", 0.98) == (inf, "1 of 3 seeds")
    assert tables.reached(finals, curves, "sbc", 1.0) == (inf, "—")


def test_an_added_method_stands_beside_the_others() -> None:
    frames = run.Frames(*(FINALS.assign(kind=name) for name in run.FRAMES))
    mine = made({("mine", 1.0): [0.5, 0.5, 0.5]})
    both = run.Frames(mine, mine, mine).beside(frames).finals
    assert list(both["method"].unique()) == ["dense", "sbc", "drive", "mine"]


def test_a_method_that_cannot_be_read_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--add: .*nonsense"):
        run.EXPERIMENT.main("smoke", ["digits"], tmp_path / "out", 1, None, "nonsense(0.1)")
    with pytest.raises(UsageError, match="takes no method of one's own"):
        experiment("cohorts").EXPERIMENT.main("smoke", None, tmp_path / "out", 1, None, "sbc")
    assert not (tmp_path / "out").exists()


def test_there_are_thirty_methods_and_each_can_be_read() -> None:
    from fedsim.search import chosen

    texts = [row.text.replace("{step}", "0.01") for row in rows.ROWS.values()]
    assert len(texts) >= 30 and chosen(texts)


@pytest.mark.parametrize("task", sorted(p.parent.name for p in RESULTS.glob("*/finals.csv")))
def test_committed_runs_are_what_the_budgets_ask_for(task: str) -> None:
    """All methods, three seeds each, bits within 3 % of the budget, as many trials for each."""
    frames = run.Frames.read(RESULTS / task)
    size = tasks.TASKS[task]["short"]
    finals, trials = frames.finals, frames.trials
    dense = finals.loc[(finals["method"] == "dense") & (finals["budget"] == 1.0), "bits"].max()
    assert {*finals["method"]} == {*rows.ROWS} and {*finals["budget"]} == {*size.budgets}
    assert {*finals.groupby(["method", "budget"])["seed"].agg(tuple)} == {(1, 2, 3)}
    assert (finals["bits"].dropna() <= 1.04 * finals["budget"] * dense).all()
    assert {*trials.groupby(["method", "budget"]).size()} == {size.trials}
    chosen = finals.drop_duplicates(["method", "budget"]).merge(
        trials, on=["method", "budget", "n", "lr", "text"], suffixes=("", "_trial"))  # fmt: skip
    best = trials.groupby(["method", "budget"])["metric"].max()
    told = chosen.set_index(["method", "budget"])["metric_trial"]
    assert (told == best[told.index]).all() and len(told) == len(best)


@pytest.mark.parametrize("task", sorted(p.parent.name for p in RESULTS.glob("*/finals.csv")))
def test_the_settings_of_the_final_runs_are_committed(task: str) -> None:
    finals = pd.read_csv(RESULTS / task / "finals.csv")
    cells = [cell.config for cell in from_toml(RESULTS / task / "runs.toml")]
    told = {(c.label, c.seed, c.temporal, c.iterations, c.training.lr) for c in cells}
    columns = ["method", "seed", "n", "iterations", "lr"]
    assert told == {*finals[columns].itertuples(index=False, name=None)}

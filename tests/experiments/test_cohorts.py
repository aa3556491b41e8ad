"""A thousand clients with dropout and a deadline: what the committed tables say."""

import pandas as pd
import pytest
from scipy.stats import t, ttest_rel

from tests.support.experiments import experiment
from tests.support.markdown import ROOT

RESULTS = ROOT / "experiments" / "cohorts" / "results"
LATE = ["hold", "drop", "count"]


def rows() -> pd.DataFrame:
    return pd.read_csv(RESULTS / "policies.csv").set_index("name")


def test_a_thousand_clients_fifty_rounds_a_tenth_drops_out() -> None:
    table = rows()
    cells = experiment("cohorts").cells("short")
    named = {f"{name}-seed{seed}" for name, seed in zip(table.index, table["seed"], strict=True)}
    assert named == {cell.name for cell in cells} and len(cells) == 20 * 6
    assert {cell.config.plan.clients for cell in cells} == {1000}
    assert (table["rounds"] == 50).all()
    out = table["dropped_out"] / table["asked"]
    assert out[[*LATE, "dropout"]].between(0.07, 0.13).all()
    assert not table.loc[["all", "deadline"], "dropped_out"].any()
    assert not table.loc[["all", "dropout"], "late"].any()


def test_every_update_is_used_late_or_dropped_out() -> None:
    table = rows()
    used = table["updates_per_round"] * table["rounds"]
    more = used + table["dropped_out"] + table["late"] - table["asked"]
    assert more.drop("count").abs().max() < 1e-6
    assert more["count"].between(1, table["late"]["count"]).all()  # late, and used after all
    assert not table.drop("drop")["lost"].any()
    assert table["lost"]["drop"].between(1, table["late"]["drop"]).all()


def test_the_deadline_halves_the_time() -> None:
    table = rows()
    assert (table.loc[LATE, "sim_seconds"] <= 50).all()
    assert table["sim_seconds"]["all"].mean() > 1.9 * table["sim_seconds"]["hold"].mean()


def test_differences_are_paired_over_seeds_and_corrected() -> None:
    told = pd.read_csv(RESULTS / "differences.csv").set_index(["name", "less"])
    scores = rows().reset_index().pivot(index="seed", columns="name", values="accuracy_percent")
    chances = {}
    for name, base in told.index:
        gap = scores[name] - scores[base]
        assert told.loc[(name, base), "points"] == pytest.approx(gap.mean(), rel=1e-4)
        chances[name, base] = ttest_rel(scores[name], scores[base]).pvalue
    least = min(chances, key=lambda pair: chances[pair])
    assert told.loc[least, "holm"] == pytest.approx(min(1, 3 * chances[least]), rel=1e-3)
    assert [*told.index] == [("count", "hold"), ("deadline", "all"), ("dropout", "all")]


def test_what_the_page_says_of_times_and_scores() -> None:
    page = " ".join((RESULTS.parent / "README.md").read_text(encoding="utf-8").split())
    table = rows()
    scores = table["accuracy_percent"].groupby("name").std()
    assert f"some {scores.min():.0f} to {scores.max():.0f} points" in page
    assert f"in place of {table['sim_seconds']['all'].mean():.1f}." in page
    half = {}
    for name in ("deadline", "all"):
        times = table.loc[name, "target_seconds"].dropna()
        half[name] = f"{times.mean():.1f} ± {t.ppf(0.975, len(times) - 1) * times.sem():.1f}"
    assert f"{half['deadline']} s in place of {half['all']}" in page
    equal = [table.loc[name, "accuracy_percent"].tolist() for name in ("hold", "drop")]
    assert equal[0] == equal[1]
    told = pd.read_csv(RESULTS / "differences.csv")
    assert f"{told['half'].min():.1f} to {told['half'].max():.1f} points either way" in page
    assert (told["holm"] > 0.05).all()

"""Adapters beside full fine-tuning: the rule, and what the README says of the committed runs."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from tests.support.experiments import experiment
from tests.support.markdown import ROOT

HOME = ROOT / "experiments" / "lora"
ALL = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
README = re.sub(r"\s+", " ", (HOME / "README.md").read_text(encoding="utf-8"))


def rows() -> pd.DataFrame:
    return pd.read_csv(HOME / "results" / "rows.csv").set_index("name")


def curves() -> pd.DataFrame:
    return pd.read_csv(HOME / "results" / "curves.csv")


def test_the_rule_by_hand() -> None:
    """FedIT ends at 4 and 5: the bar is 5; full is there after 30 and 10 bits."""
    compressed = ["full-sbc-half", "fedit-sbc", "ffa-sbc"]
    lines = [
        ("full", 0, 6, 10),
        ("full", 0, 5, 30),
        ("full", 0, 6, 50),
        ("full", 1, 5, 10),
        ("full", 1, 4, 20),
        ("fedit", 0, 4, 2),
        ("fedit", 1, 6, 1),
        ("fedit", 1, 5, 2),
        ("ffa", 0, 7, 1),
        ("ffa", 1, 5, 1),
        ("full-sbc", 0, 6, 1),
        ("full-sbc", 1, 6, 1),
        *((name, seed, 8, 1) for name in compressed for seed in (0, 1)),
    ]
    frame = pd.DataFrame(lines, columns=["name", "seed", "perplexity", "bits"]).assign(trained=1)
    made = experiment("lora").compared(frame).set_index("name")
    assert made["target_fedit"].tolist() == [5] * 7 and made["target_ffa"].tolist() == [7] * 7
    never = ["ffa", "full-sbc", *compressed]
    assert made["bits_fedit"].drop(never).tolist() == [20, 2]
    assert made.loc[never, "bits_fedit"].isna().all()
    assert made.loc["full", "bits"] == 35 and made.loc["full-sbc", "bits_ffa"] == 1


def end() -> pd.DataFrame:
    """The perplexity at the end, by seed and row."""
    return curves().groupby(["seed", "name"])["perplexity"].last().unstack()


def told(of: pd.Series, less: pd.Series, digits: int, text: str = "from {} to {}") -> str:
    low, high = ttest_rel(of, less).confidence_interval()
    return text.format(f"{low:.{digits}f}", f"{high:.{digits}f}")


def test_the_table_is_of_the_evaluations() -> None:
    module = experiment("lora")
    made = module.compared(curves()).set_index("name")
    pd.testing.assert_frame_equal(made, rows(), rtol=1e-5, check_dtype=False)
    assert curves().groupby("name")["seed"].nunique().eq(10).all()
    assert [*rows().index] == [*module.ROWS]


def test_the_planned_differences() -> None:
    """Five fresh seeds, paired; Holm's correction over three by hand."""
    lines = pd.read_csv(HOME / "results" / "differences.csv")
    fresh, bits = end().loc[5:], curves().groupby(["seed", "name"])["bits"].last().unstack().loc[5:]
    chances = []
    for line in lines.itertuples():
        test = ttest_rel(fresh[line.name], fresh[line.less])
        low, high = test.confidence_interval()
        assert (line.seeds, line.points) == (5, pytest.approx((low + high) / 2, rel=1e-4))
        assert line.half == pytest.approx((high - low) / 2, rel=1e-3)
        assert line.times == pytest.approx(
            bits[line.name].mean() / bits[line.less].mean(), rel=1e-4
        )
        chances.append(float(test.pvalue))
    order, worst = np.argsort(chances), 0.0
    for place, i in enumerate(order):
        worst = max(worst, (3 - place) * chances[i])
        assert lines["holm"][i] == pytest.approx(worst, rel=1e-3)
    first = lines.iloc[0]
    assert (first["name"], first["less"]) == ("fedit-sbc", "full-sbc-half")
    assert f"ends {-first['points']:.3f} lower in perplexity than all weights" in README
    low, high = -first["points"] - first["half"], -first["points"] + first["half"]
    assert f"interval {low:.3f} to {high:.3f}, p = {first['holm']:.4f} after Holm" in README
    assert f"with {first['times']:.2f} times the bits" in README
    assert f"`sbc(0.1)` {low:.3f} to {high:.3f} lower in perplexity" in ALL


def bits_until(bar: float) -> pd.DataFrame:
    """By seed and row, the logarithm of a client's bits until a perplexity."""
    there = curves()[curves()["perplexity"] <= bar]
    return np.log(there.groupby(["seed", "name"])["bits"].first().unstack())


def fewer(of: pd.Series, less: pd.Series) -> list[float]:
    return [*np.exp([(of - less).mean(), *ttest_rel(of, less).confidence_interval()])]


def test_what_the_page_says_of_bits() -> None:
    table = rows()
    high, low = (bits_until(table.loc["full", f"target_{t}"] + 1e-5) for t in ("fedit", "ffa"))
    text = "{:.1f} times less (geometric mean of seeds, from {:.1f} to {:.1f})"
    assert text.format(*fewer(high["full"], high["fedit"])) in README
    assert "{1:.1f} to {2:.1f} times fewer bits".format(*fewer(high["full"], high["fedit"])) in ALL
    text = "it is {:.1f} times less (from {:.1f} to {:.1f})"
    assert text.format(*fewer(low["full"], low["fedit"])) in README
    for name, text in {
        "full-sbc-half": "`sbc(0.005)` take {:.1f} times as many (from {:.1f} to {:.1f})",
        "full-sbc": "`sbc(0.01)` {:.1f} times (from {:.1f} to {:.1f})",
    }.items():
        assert text.format(*fewer(low[name], low["fedit-sbc"])) in README
    assert f"{table.loc['full', 'trained'] / table.loc['fedit', 'trained']:.1f} times are" in README
    ratio = table.loc["fedit", "bits"] / table.loc["fedit-sbc", "bits"]
    assert f"with {ratio:.0f} times fewer bits" in README
    compressed = ["full-sbc", "full-sbc-half", "fedit-sbc", "ffa-sbc"]
    assert table.loc[[*compressed, "ffa"], "bits_fedit"].isna().all()
    assert table.loc["ffa", "bits_ffa"] > table.loc["fedit", "bits_ffa"]


def test_what_the_page_says_of_ends() -> None:
    last = end()
    gap = (last["full"] - last["fedit"]).mean()
    low, high = ttest_rel(last["fedit"], last["full"]).confidence_interval()
    assert f"({gap:.3f} lower, from {-low:.3f} lower to {high:.3f} higher, ten seeds)" in README
    assert low < 0 < high
    assert f"ends at {last['fedit-sbc'].mean():.3f}, 0.015 above uncompressed FedIT" in README
    assert f"({told(last['fedit-sbc'], last['fedit'], 3)})" in README
    assert f"ends at {last['ffa'].mean():.3f}, 0.13 above FedIT" in README
    assert f"({told(last['ffa'], last['fedit'], 2)})" in README
    assert f"ends {told(last['ffa'], last['fedit'], 2, '{} to {}')} above FedIT" in ALL
    assert f"compressed at {last['ffa-sbc'].mean():.3f}" in README

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
    ]
    frame = pd.DataFrame(lines, columns=["name", "seed", "perplexity", "bits"]).assign(trained=1)
    made = experiment("lora").compared(frame).set_index("name")
    assert made["target_fedit"].tolist() == [5] * 4 and made["target_ffa"].tolist() == [7] * 4
    assert made["bits_fedit"].drop(["ffa", "full-sbc"]).tolist() == [20, 2]
    assert made.loc[["ffa", "full-sbc"], "bits_fedit"].isna().all()
    assert made.loc["full", "bits"] == 35 and made.loc["full-sbc", "bits_ffa"] == 1


def test_the_table_is_of_the_evaluations() -> None:
    made = experiment("lora").compared(curves()).set_index("name")
    pd.testing.assert_frame_equal(made, rows(), rtol=1e-5, check_dtype=False)
    assert curves().groupby("name")["seed"].nunique().eq(5).all()


def bits_until(bar: float) -> pd.DataFrame:
    """By seed and row, the logarithm of a client's bits until a perplexity."""
    there = curves()[curves()["perplexity"] <= bar]
    return np.log(there.groupby(["seed", "name"])["bits"].first().unstack())


def test_what_the_readme_says_of_fedit() -> None:
    table = rows()
    full, fedit = table.loc["full"], table.loc["fedit"]
    fewer = [full[f"bits_{t}"] / fedit[f"bits_{t}"] for t in ("fedit", "ffa")]
    assert f"{fewer[0]:.1f} times less" in README and f"it is {fewer[1]:.1f} times less" in README
    assert f"{full['trained'] / fedit['trained']:.1f} times by the weights" in README
    assert f"{fedit['perplexity']:.3f} and {full['perplexity']:.3f}" in README
    texts = (
        "mean of the seeds {:.1f}, with an interval from {:.1f} to {:.1f})",
        "({:.1f}, from {:.1f} to {:.1f})",
    )
    for target, text in zip(("fedit", "ffa"), texts, strict=True):
        ratio = bits_until(table.loc["full", f"target_{target}"] + 1e-5)
        told = ttest_rel(ratio["full"], ratio["fedit"]).confidence_interval()
        mean = (ratio["full"] - ratio["fedit"]).mean()
        assert text.format(*np.exp([mean, *told])) in README
        if target == "fedit":
            assert "with {:.1f} to {:.1f} times fewer bits".format(*np.exp(told)) in ALL


def test_intervals_of_the_perplexities_at_the_end() -> None:
    end = curves().groupby(["seed", "name"])["perplexity"].last().unstack()
    low, high = ttest_rel(end["fedit"], end["full"]).confidence_interval()
    gap = (end["full"] - end["fedit"]).mean()
    assert f"{gap:.3f} below that of full fine-tuning" in README
    assert f"interval from {-low:.3f} below to {high:.3f} above" in README and low < 0 < high
    assert f"{low:.3f} to +{high:.3f} of full fine-tuning's perplexity" in ALL
    for name in ("ffa", "full-sbc"):
        told = ttest_rel(end[name], end["fedit"]).confidence_interval()
        assert "above FedIT (from {:.2f} to {:.2f})".format(*told) in README
        assert "{:.2f} to {:.2f} above".format(*told) in ALL


def test_what_the_readme_says_of_the_others() -> None:
    table = rows()
    fedit, ffa, sparse = (table.loc[name] for name in ("fedit", "ffa", "full-sbc"))
    above = [row["perplexity"] - fedit["perplexity"] for row in (ffa, sparse)]
    assert f"ends at {ffa['perplexity']:.3f}, {above[0]:.2f} above FedIT" in README
    assert f"end at {sparse['perplexity']:.3f}, {above[1]:.2f} above FedIT" in README
    assert f"{fedit['bits'] / sparse['bits']:.0f} times less than FedIT's" in README
    assert pd.isna([ffa["bits_fedit"], sparse["bits_fedit"]]).all()
    assert ffa["bits_ffa"] > fedit["bits_ffa"] > 10 * sparse["bits_ffa"]
    assert ffa["bits"] == pytest.approx(fedit["bits"] / 2, rel=0.001)

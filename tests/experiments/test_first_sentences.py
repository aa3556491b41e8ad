"""A page begins with a claim, its interval and its unit of repetition, or says what is not told."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, t

from tests.support.markdown import ROOT

HOME = ROOT / "experiments"
PAGES = sorted(path.parent.name for path in HOME.glob("*/README.md"))


def first(name: str) -> str:
    """The first paragraph that is no note, in one line."""
    lines = (HOME / name / "README.md").read_text(encoding="utf-8").splitlines()[1:]
    lines = [line for line in lines if not line.startswith("<!--")]
    rest = itertools.dropwhile(lambda line: not line or line.startswith(">"), lines)
    return " ".join(itertools.takewhile(bool, rest))


def table(name: str, file: str) -> pd.DataFrame:
    return pd.read_csv(HOME / name / "results" / file)


def interval(values: pd.Series) -> np.ndarray:
    """Mean, lower and upper end of Student's interval of 95 %."""
    half = t.ppf(0.975, len(values) - 1) * values.std() / len(values) ** 0.5
    return values.mean() + half * np.array([0, -1, 1])


def ratio(values: pd.Series, base: pd.Series) -> np.ndarray:
    return np.exp(interval(np.log(values / base)))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_begins_with_what_can_be_told(name: str) -> None:
    told = first(name)
    assert told.startswith("**") and "unit of repetition is" in told
    assert any(words in told for words in ("95 % interval", "cannot be told", "no interval"))


def test_async_dropping() -> None:
    by = table("async-dropping", "runs.csv").pivot(
        index="seed", columns="name", values="target_seconds"
    )
    told = first("async-dropping")
    some, many = (ratio(by[name], by["dense"]) for name in ("drop-90", "drop-99"))
    assert "{:.2f} times the time without dropping (95 % interval {:.2f} to".format(*some) in told
    assert f"to {some[2]:.2f})" in told
    assert "({:.2f}, from {:.2f} to {:.2f})".format(*many) in told and many[1] < 1 < many[2]
    page = " ".join((HOME / "async-dropping" / "README.md").read_text(encoding="utf-8").split())
    slower = ratio(by["drop-99"], by["drop-90"])
    assert "takes {:.2f} times the time, from {:.2f} to {:.2f})".format(*slower) in page
    dense, sparse = ratio(by["sync"], by["dense"]), ratio(by["sync-drop-99"], by["drop-99"])
    assert f"in {dense[0]:.2f} times the asynchronous time" in page
    assert "(from {1:.2f} to {2:.2f}), and in".format(*dense) in page
    assert "{:.2f} times with 99 % dropped ({:.2f} to {:.2f})".format(*sparse) in page


def test_cnat_convergence() -> None:
    halves, bits = {}, []
    for path in sorted((HOME / "cnat-convergence" / "results").glob("*/methods.csv")):
        both = pd.read_csv(path).set_index("name").loc[["none", "cnat"]]
        parts = both["accuracy_spread"] ** 2 / both["seeds"]
        freedom = parts.sum() ** 2 / (parts**2 / (both["seeds"] - 1)).sum()
        halves[path.parent.name] = t.ppf(0.975, freedom) * parts.sum() ** 0.5
        bits.append(both.loc["none", "up_bits_per_entry"] / both.loc["cnat", "up_bits_per_entry"])
    told = first("cnat-convergence")
    ends = min(halves.values()), max(halves.values())
    assert "from none is {:.1f} to {:.1f} points".format(*ends) in told
    page = " ".join((HOME / "cnat-convergence" / "README.md").read_text(encoding="utf-8").split())
    two = f"is {halves['digits']:.1f} and {halves['fashion_lenet5']:.1f} points"
    assert two in page and two in (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert f"{min(bits):.1f} to {max(bits):.1f} times fewer bits" in told and len(bits) == 6


def test_cnat_on_gradients_and_normal_entries() -> None:
    facts = table("cnat-exponents", "facts.csv").query("kind == 'gradient'")
    inside = (facts[["below_window_percent", "above_window_percent"]] == 0).all(axis=1)
    low = binomtest(int(inside.sum()), len(facts)).proportion_ci().low
    assert inside.all() and f"is {100 * low:.0f} to 100 %" in first("cnat-exponents")
    rows = table("cnat-variance", "variance.csv").set_index(["family", "s"])
    two = rows.loc[[("D_sta, u = s", 8.0), ("D_nat, s", 8.0)]]
    times = two["omega"].iloc[0] / two["omega"].iloc[1]
    half = times * t.ppf(0.975, 2) * ((two["omega_spread"] / two["omega"]) ** 2).sum() ** 0.5
    ends = times - half / 3**0.5, times + half / 3**0.5
    assert f"{times:.1f} times the variance" in first("cnat-variance")
    assert "(95 % interval {:.1f} to {:.1f})".format(*ends) in first("cnat-variance")


def test_gradient_dropping() -> None:
    runs, told = table("gradient-dropping", "tables.csv"), first("gradient-dropping")
    early, end = (
        runs.pivot(index="seed", columns="name", values=f"{at}_percent")
        for at in ("early", "accuracy")
    )
    pairs = ("drop-99", "dense"), ("plain-global-99", "plain-dense")
    normed, plain = (interval(early[a] - early[b]) for a, b in pairs)
    assert "{:.1f} points ahead of no dropping after 50 rounds".format(*normed) in told
    assert "(95 % interval {1:.1f} to {2:.1f})".format(*normed) in told
    behind = -plain[[0, 2, 1]]
    assert "{:.1f} points behind after 50 rounds ({:.1f} to {:.1f})".format(*behind) in told
    normed, plain = (interval(end[a] - end[b]) for a, b in pairs)
    assert "({:.2f} points above, from {:.2f} to {:.2f})".format(*normed) in told
    assert f"({-plain[0]:.2f} below, from {plain[1]:.2f} to {plain[2]:.2f})" in told
    assert normed[1] < 0 < normed[2] and plain[1] < 0 < plain[2]


def test_dropping_words() -> None:
    by = table("dropping-words", "scores.csv").pivot(
        index="seed", columns="name", values="perplexity"
    )
    told = first("dropping-words")
    some, many, most = (
        100 * (ratio(by[f"drop-{share}"], by["dense"]) - 1) for share in ("90", "99", "99.9")
    )
    assert f"{-some[0]:.1f} % less perplexity" in told
    assert f"(95 % interval {-some[2]:.1f} to {-some[1]:.1f} %)" in told
    assert "at {:.0f} % more ({:.0f} to {:.0f} %)".format(*most) in told
    assert f"(from {-many[1]:.1f} % less to {many[2]:.1f} % more)" in told


def test_huffman_encoders() -> None:
    rows = table("huffman-encoders", "tables.csv").query("lift == 'flat'")
    by = rows.pivot(index=["quantizer", "task"], columns="encoder", values="ratio")
    told = first("huffman-encoders")
    random, terngrad, natural = (
        ratio(by.loc[name, "RLH"], by.loc[name, "Elias"]) for name in ("RD", "TQ", "CNat")
    )
    words = "{:.2f} times less volume than Elias codes of symbols with random dithering"
    assert words.format(*random) in told
    assert "(95 % interval {1:.2f} to {2:.2f})".format(*random) in told
    assert "{:.2f} times with TernGrad ({:.2f} to {:.2f})".format(*terngrad) in told
    assert "{:.2f} times with natural compression ({:.2f} to {:.2f})".format(*natural) in told
    gaps = ratio(by.loc["RD", "RLH"], by.loc["RD", "Elias, gaps"])
    assert "{:.2f} times with random dithering ({:.2f} to {:.2f})".format(*gaps) in told


def test_position_coding() -> None:
    rows = table("position-coding", "positions.csv").query("coder == 'context' and client == 1")
    by = rows.pivot(index="model", columns="setting", values="saving_percent")
    told = first("position-coding")
    ten, one = (interval(by[f"sbc-0.01-n{n}"].dropna()) for n in (10, 1))
    assert "{:.1f} % fewer bits per position than Golomb".format(*ten) in told
    assert "(95 % interval {1:.1f} to {2:.1f} %)".format(*ten) in told
    assert "{:.1f} % fewer with one ({:.1f} to {:.1f} %)".format(*one) in told

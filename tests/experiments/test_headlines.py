"""Numbers in prose, those of the headlines first, are what the results in the checkout give."""

import itertools
import re
import tomllib
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t, ttest_1samp

from experiments.common.inference import holm
from fedsim.settings.methods import resolve, takes_fraction
from fedsim.settings.strategies import algorithm_of
from tests.support.experiments import experiment
from tests.support.markdown import ROOT

HOME = ROOT / "experiments"


@cache
def said(page: str) -> str:
    """A page in one line, without the marks of its quotes."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", re.sub(r"^> ?", "", text, flags=re.MULTILINE))


def readme(name: str) -> str:
    return said(f"experiments/{name}/README.md")


@cache
def csv(path: str) -> pd.DataFrame:
    """A table of results: ``EXPERIMENT/rest``."""
    name, _, rest = path.partition("/")
    return pd.read_csv(HOME / name / "results" / rest)


def range_of(values: pd.Series, places: int) -> str:
    return f"{values.min():.{places}f} to {values.max():.{places}f}"


def test_the_character_lstm() -> None:
    rows = csv("sbc-table2/char_lstm/table2.csv").set_index("name")
    above = 100 * (rows["metric"] / rows["metric"]["baseline"] - 1)
    ratio = rows["ratio_content"]
    text = said("docs/experiments.md")
    assert f"ends at a perplexity of {rows['metric']['baseline']:.3f};" in text
    said_ = [f"{above[n]:.{d}f} %" for n, d in (("sbc1", 1), ("sbc2", 1), ("sbc3", 0))]
    fewer = [f"with {ratio[n]:.0f} times fewer" for n in ("sbc1", "sbc2", "sbc3")]
    assert f"SBC (1) {said_[0]} above it {fewer[0]} bits, SBC (2) {said_[1]} {fewer[1]}," in text
    assert f"SBC (3) {said_[2]} {fewer[2]};" in text
    spared = rows.loc[["sbc2_spared", "sbc3_spared"]].index
    two, three = (f"{above[n]:.1f} %" for n in spared)
    bits = " and ".join(f"{ratio[n]:.0f}" for n in spared)
    assert f"SBC (2) ends {two} above it and SBC (3) {three}, with {bits} times fewer" in text


def test_sbc_2_against_the_baseline_on_lenet5() -> None:
    rows = csv("sbc-table2/mnist_lenet5/table2.csv").set_index("name")
    gain = 100 * (rows["metric"]["sbc2"] - rows["metric"]["baseline"])
    fewer = f"{rows['ratio_content']['sbc2']:.0f} times fewer bits"
    text = readme("sbc-table2")
    assert f"SBC (2) ends {gain:.1f} points above our baseline and sends {fewer}" in text


@pytest.fixture(scope="module")
def phases() -> Any:
    return experiment("sbc-curves", "phases")


def test_figure_4_delay_beats_gradient_sparsity(phases: Any) -> None:
    """The sign of ``by``, and the headline: by so many points, at so many pairs of so many."""
    tables = {
        name: phases.rivals(csv(f"sbc-curves/{name}/sparsity.csv"))
        for name in ("digits", "fashion_lenet5", "fashion_lenet5_stepped")
    }
    first = pd.concat([tables["digits"], tables["fashion_lenet5"]])
    assert first["temporal_wins"].sum() == first["levels"].sum()
    gaps = f"{100 * first['gap'].min():.1f} to {100 * first['gap'].max():.0f} points on average"
    text = readme("sbc-curves")
    pairs = f"better at all {first['levels'].sum()} pairs of digits and fashion_lenet5"
    assert pairs in text and f"by {gaps}" in text
    stepped = tables["fashion_lenet5_stepped"]
    high = stepped[stepped["stage"] <= 1000]
    assert (high["temporal_wins"] == high["levels"]).all()
    agree = f"the {high['levels'].sum()} of fashion_lenet5_stepped at its high rate agree"
    assert f"{agree} ({range_of(100 * high['gap'], 1)})" in text
    both = first["both_wins"].sum(), stepped["both_wins"].sum()
    assert f"beats either alone at {both[0]} of the {first['levels'].sum()} pairs only" in text
    assert f"and at {both[1]} of the {stepped['levels'].sum()} of" in text


def test_the_gap_of_two_kinds_of_sparsity_by_hand(phases: Any) -> None:
    """Positive where delay has the lower error."""
    cells = [("temporal", 0.1), ("gradient", 0.3), ("both", 0.05)]
    plane = pd.DataFrame(cells, columns=["kind", "error"])
    plane = plane.assign(method="sbc", stage=9, diagonal=1)
    (row,) = phases.rivals(plane).to_dict("records")
    assert row["gap"] == pytest.approx(0.2)
    assert (row["levels"], row["temporal_wins"], row["both_wins"]) == (1, 1, 1)


def test_figure_3_total_sparsity_explains_errors() -> None:
    tables = [csv(f"sbc-matrix/{task}/diagonals.csv") for task in ("digits", "fashion_lenet5")]
    share = 100 * pd.concat(tables)["total"]
    assert f"sparsity explains {range_of(share, 0)} % of the variance" in readme("sbc-matrix")


def test_what_context_saves() -> None:
    rows = csv("position-coding/positions.csv")
    rows = rows[(rows["model"] != "random") & (rows["coder"] == "context") & (rows["client"] == 1)]
    assert f"columns save {range_of(rows['saving_percent'], 1)} %" in said("docs/experiments.md")


def test_which_encoder_is_the_smallest() -> None:
    rows = csv("huffman-encoders/tables.csv")
    six = ["Huffman", "Elias", "RLE", "SH", "SHS", "RLH"]
    rows = rows[(rows["lift"] == "flat") & rows["encoder"].isin(six)]
    best = rows.loc[rows.groupby(["task", "quantizer"])["ratio"].idxmax(), "encoder"]
    count = f"{(best == 'RLH').sum()} of {len(best)} rows"
    assert f"smallest of the six in {count}" in readme("huffman-encoders")
    assert f"smallest in {count}" in said("docs/experiments.md")


def test_natural_compression_after_top_k() -> None:
    rows = csv("topk-cnat/fashion_lenet5/tables.csv").set_index("name")
    pairs = [(rows.loc[f"topk-{k}"], rows.loc[f"topk-cnat-{k}"]) for k in ("0.39", "1.56", "6.25")]
    volume = pd.Series([plain["content_percent"] / nat["content_percent"] for plain, nat in pairs])
    moved = max(abs(plain["score"] - nat["score"]) for plain, nat in pairs)
    end = f"and moves the accuracy by at most {moved:.1f} points"
    assert f"divides the volume by {range_of(volume, 1)} {end}" in readme("topk-cnat")


def test_natural_compression_costs_no_accuracy() -> None:
    text, lost = readme("cnat-convergence"), []
    for task in ("digits", "fashion_lenet5", "cifar_resnet20", "cifar_alexnet"):
        rows = csv(f"cnat-convergence/{task}/methods.csv").set_index("name")["accuracy_percent"]
        lost.append(f"{rows['none'] - rows['topk']:.1f}")
        assert re.search(rf"\| {task} \|[^|]*\|[^|]*\|[^|]*\|[^|]*\| {rows['none']:.2f} % \|", text)
    assert f"fails it by {', '.join(lost[:-1])} and {lost[-1]} points" in text
    for task in ("cifar_vgg11", "cifar_resnet20", "cifar_densenet40", "cifar_alexnet"):
        rows = csv(f"cnat-convergence/{task}/methods.csv").set_index("name")
        ends = [
            f"{rows['accuracy_percent'][n]:.2f} ± {rows['accuracy_spread'][n]:.2f}"
            for n in ("cnat", "none")
        ]
        assert f"({ends[0]} against {ends[1]})" in text
    assert f"training loss is {-rows['loss_above_none']['cnat']:.3f} below none's" in text


def test_dithering_on_normal_entries() -> None:
    rows = csv("cnat-variance/variance.csv")
    omega = rows[rows["figure"] == "16-18"].pivot(index="s", columns="family", values="omega")
    times = omega["D_sta, u = s"][8] / omega["D_nat, s"][8]
    text = readme("cnat-variance")
    assert f"at s = 8 standard dithering has {times:.0f} times the variance" in text
    better = omega["D_nat, s"][10] / omega["D_sta, u = 2^(s-1)"][10]
    assert f"{better:.1f} times at s = 10; natural dithering levels off at" in text


def test_figure_15b_on_densenet40() -> None:
    rows = csv("deepreduce/cifar_densenet40/tables.csv").set_index("name")
    text, wire = readme("deepreduce"), rows["wire_percent"]
    p0, p1, p2 = (f"halfr-{policy}-0.001" for policy in ("p0", "p1", "p2"))
    assert f"{wire[p1]:.3f} % beside Top-r's {wire['halfr']:.3f} %" in text
    assert abs(wire[[p1, p2]] / rows["predicted_percent"][[p1, p2]] - 1).max() < 0.005
    formula = rows["predicted_percent"][p0]
    assert f"BF-P0 sends {wire[p0]:.3f} % where they say {formula:.3f} %" in text
    values = rows["value_percent"]
    assert f"values {values[p0]:.3f} % travel, of Top-r's {values['halfr']:.3f} %" in text
    score = rows["score"]
    assert f"end at {range_of(score[[p0, p2, 'halfr']], 1)} %" in text
    assert f"filter at {score['halfr-naive-0.001']:.1f} %, BF-P1 at {score[p1]:.1f} %" in text


def test_bf_p2_with_fit_poly_on_ncf() -> None:
    rows, text = csv("ncf-movielens/table2.csv").set_index("name"), readme("ncf-movielens")
    hits = rows["best_hit_rate"] - rows["best_hit_rate"]["dense"]
    both = hits[["skcompress", "p2-fit-poly"]]
    assert {f"{x:.4f}" for x in both} == {"0.0074"} and (rows["seeds"] == 2).all()
    assert "SKCompress and BF-P2 with Fit-Poly end 0.0074 above the baseline" in text
    volume = rows["relative_volume"]["p2-fit-poly"]
    assert f"BF-P2 with Fit-Poly: {volume:.3f} of dense" in text


def test_the_least_volume_of_deepreduce() -> None:
    rows = csv("deepreduce/fashion_lenet5/tables.csv").set_index("name")["wire_percent"]
    mixed = [name for name in rows.index if "qsgd" in name and "p2" in name]
    least = f"{rows['skcompress']:.3f} %; BF-P2 with QSGD {rows[mixed[0]]:.3f} %"
    assert least in readme("deepreduce") and rows["skcompress"] == rows.min()


def test_figure_4_of_gradient_dropping() -> None:
    """Ahead with layer normalization, behind without it, with every seed."""
    table = csv("gradient-dropping/tables.csv").set_index(["name", "seed"])
    gaps = {}
    for name, dense in (
        ("drop-99", "dense"),
        ("local-99", "dense"),
        ("plain-global-99", "plain-dense"),
        ("plain-local-99", "plain-dense"),
    ):
        early = table["early_percent"]
        gaps[name] = early[name] - early[dense]
        assert list(gaps[name].index) == [0, 1, 2]
    ahead, text = pd.concat([gaps["drop-99"], gaps["local-99"]]), readme("gradient-dropping")
    assert ahead.min() > 0 and f"({range_of(ahead, 1)} points after 50 rounds" in text
    behind = range_of(-gaps["plain-global-99"], 1), range_of(-gaps["plain-local-99"], 1)
    assert f"after 50 rounds global by {behind[0]} and local by {behind[1]} points" in text
    end = table["accuracy_percent"]
    assert f"no dropping ends at {end['dense'].mean():.2f} %" in text
    seed0 = f"no dropping ends at {end['dense', 0]:.2f}, 99 % at {end['drop-99', 0]:.2f}"
    assert f"{seed0}, 99 % local at {end['local-99', 0]:.2f}" in text


PLACE_OF_CROSSING = ["setting", "iterations", "budget"]


def test_where_masks_and_top_k_cross() -> None:
    """The page's sentences, which change when runs are merged."""
    law, text = csv("crossing/law.csv").set_index("of"), readme("crossing").replace("\n  ", " ")
    at = csv("crossing/differences.csv").groupby(PLACE_OF_CROSSING)["gain"]
    mean, chance = at.mean(), at.apply(lambda gain: ttest_1samp(gain, 0).pvalue).fillna(1)
    assert f"mean gain is above zero at {(mean > 0).sum()} of {len(mean)} places" in text
    told = pd.Series(holm(chance.to_numpy()), chance.index) < 0.05
    raw = chance < 0.05
    pairs = [((x & (mean > 0)).sum(), (x & (mean < 0)).sum()) for x in (told, raw)]
    assert (
        "the mask is better at {} and top-k at {}; before it, at {} and {}.".format(
            *pairs[0], *pairs[1]
        )
        in text
    )
    for setting, part in mean.groupby("setting"):
        better = told[setting] & (mean[setting] > 0)
        above = f"{part.mean():+.2f} | {(part > 0).sum()} | {better.sum()}"
        assert f"| {setting} | {len(part)} | {above} |" in text
    for name, row in law.iterrows():
        low, high = (row["slope"] + z * row["error"] for z in (-1.96, 1.96))
        found = f"(95 % interval {low:.2f} to {high:.2f}; p = {row['chance']:.2g})"
        assert found in text and name in ("all", "equal bits", "smaller budgets")
    borne = law.loc["all", "slope"] < 0 and law.loc["all", "chance"] < 0.05
    assert f"**The hypothesis is {'' if borne else 'not '}borne out.**" in text


ANSWERS = {"digits": 360, "mnist": 2000, "chars": 400 * 64}
"""What a final run is scored by: samples, of windows of text their characters."""


def test_sbc_with_and_without_its_masking() -> None:
    """Counted from right and wrong answers, paired by seed; a run that diverged guesses."""
    runs = pd.concat(map(pd.read_csv, (HOME / "crossing" / "results").glob("*/finals-*.csv")))
    runs = runs[runs["method"].isin(["sbc", "sbc_unmasked"])]
    kind = runs["setting"].str.partition("_")[0]
    share = runs["metric"].fillna(1 / kind.map({"digits": 10, "mnist": 10, "chars": 97}))
    right, samples = share * kind.map(ANSWERS), kind.map(ANSWERS)
    odds = runs.assign(odds=np.log((right + 0.5) / (samples - right + 0.5)))
    by = odds.pivot(index=[*PLACE_OF_CROSSING, "seed"], columns="method", values="odds")
    left = by[by["sbc_unmasked"].isna()].groupby(PLACE_OF_CROSSING).size()
    by = by.dropna()
    assert by.groupby(PLACE_OF_CROSSING).size().eq(10).all() and left.eq(10).all()
    places = (by["sbc_unmasked"] - by["sbc"]).groupby(PLACE_OF_CROSSING)
    mean, chance = places.mean(), places.apply(lambda gain: ttest_1samp(gain, 0).pvalue).fillna(1)
    told = [pd.Series(holm(chance.to_numpy()), chance.index) < 0.05, chance < 0.05]
    (without, masked), before = [((x & (mean > 0)).sum(), (x & (mean < 0)).sum()) for x in told]
    half = t.ppf(0.975, len(mean) - 1) * mean.std() / len(mean) ** 0.5
    text = readme("crossing")
    assert (f"has not run at {len(left)} of the plan's places" in text) == (len(left) > 0)
    assert f"SBC is better at {without} of {len(mean)} places, with it at {masked} (Holm" in text
    assert f"before it, at {before[0]} and {before[1]})" in text
    assert f"gain of SBC without masking is {mean.mean():+.2f} (log-odds; 95 % interval" in text
    assert f"over places {mean.mean() - half:+.2f} to {mean.mean() + half:+.2f}," in text


def test_what_methods_use_of_a_hundredth_of_dense() -> None:
    runs = pd.concat(map(pd.read_csv, (HOME / "crossing" / "results").glob("*/finals-*.csv")))
    place = ["setting", "iterations"]
    dense = runs[runs["method"] == "dense"].groupby(place)[["bits", "rounds"]].mean()
    message = (dense["bits"] / dense["rounds"]).rename("message")
    mine = runs[runs["budget"] == 0.01].join(message, on=place)
    used = mine["bits"] / (0.01 * mine["message"] * mine["iterations"])
    used = used.groupby([mine["kind"], mine["method"], mine["setting"], mine["iterations"]]).mean()
    masks, tops = (range_of(100 * used[kind], 0) for kind in ("mask", "topk"))
    text = readme("crossing")
    assert f"top-k methods use {tops} % of the budget there, masks {masks} %" in text


def test_masks_end_above_dense_messages_on_skewed_mnist() -> None:
    text, means = readme("crossing"), csv("crossing/mnist_skewed/means.csv")
    at = means.set_index(["method", "budget"]).sort_index()
    dense = means[means["method"] == "dense"].iloc[0]
    assert f"dense messages ({dense['mean']:.1f} ± {dense['sd']:.1f} %)" in text
    for method, budget, words in (("mask1", 0.01, "hundredth"), ("mask2", 0.001, "thousandth")):
        row = at.loc[(method, budget)]
        assert f"`{method}` at a {words} at {row['mean']:.1f} ± {row['sd']:.1f} %" in text
    means = means[~means["method"].isin(["stc", "topk4", "sbc_unmasked"])]
    late, soon = (means[means["n"] == n] for n in (25, 5))
    assert {"dense", "drive"} <= {*late["method"]}
    assert f"what ran at n = 25 ended at {range_of(late['mean'], 0)} %" in text
    soon = soon[soon["budget"] > 0.0001]
    masks, sbc = (soon[soon["method"].str.startswith(kind)]["mean"] for kind in ("mask", "sbc"))
    assert f"masks ended at {range_of(masks, 1)} %" in text and len(masks) == 4
    ef21 = at.loc[("ef21", 0.01)]
    assert ef21["n"] == 5 and f"EF21 at a hundredth at {ef21['mean']:.1f} %" in text
    assert f"and SBC at {range_of(sbc, 0)} %" in text


def test_collapses_where_masks_and_top_k_meet() -> None:
    law, every = experiment("crossing", "law"), 0
    for path in sorted((HOME / "crossing" / "results").glob("*/finals-*.csv")):
        every += law.collapses(pd.read_csv(path))["collapsed"].sum()
    assert every == csv("crossing/collapses.csv")["collapsed"].sum()
    means = csv("crossing/digits_skewed/means.csv").query("iterations == 125")
    below = (means["median"] - means["mean"]).set_axis(means["method"])
    far = below[(below > 5) & below.index.str.startswith("mask")]
    assert sorted(far.index) == ["mask1", "mask1", "mask2", "mask4"]
    assert f"means lie {range_of(far, 1)} points below medians" in readme("crossing")


def test_dropping_where_words_have_tables() -> None:
    told = readme("dropping-words")
    by = csv("dropping-words/scores.csv").pivot(index="name", columns="seed", values="perplexity")
    above = {name: 100 * (by.loc[name] / by.loc["dense"] - 1) for name in by.index}
    assert (by.loc["drop-99"] > by.loc["drop-90"]).all()
    assert f"(by {range_of(-above['drop-90'], 1)} and {range_of(-above['drop-99'], 1)} %)" in told
    assert f"Dropping 99.9 % costs {range_of(above['drop-99.9'], 0)} %" in told
    plain = 100 * (by.loc["plain-local-99"] / by.loc["plain-dense"] - 1)
    assert f"local thresholds are {range_of(plain, 0)} % above it on all seeds" in told
    assert (by.loc["plain-local-99"] > by.loc["plain-99"]).all()
    above_normed = 100 * (by.loc["plain-dense"] / by.loc["dense"] - 1)
    assert f"and dropping end {range_of(above_normed, 0)} % higher" in told
    local = by.loc["drop-99"] - by.loc["local-99"]
    assert f"by {local.min():.2f} to {local.max():.1f} of perplexity" in told
    quantized = {
        name: by.loc[name] - by.loc["drop-99"] for name in ("min-1", "avg-1", "min-2", "avg-2")
    }
    for value in ("min", "avg"):
        assert (quantized[f"{value}-1"] > quantized[f"{value}-2"]).all()
    assert f"(by {range_of(pd.concat(quantized.values()), 1)} of perplexity)" in told
    skew = csv("dropping-words/shares.csv").set_index("name").loc["drop-99"]
    assert f"{skew['least_percent']:.2f} % of the entries of words' input table" in told
    assert f"and {skew['most_percent']:.0f} % of a normalization's biases" in told
    assert f"{skew['words_of_all_percent']:.0f} % of all entries and" in told


def test_total_sparsity_on_resnet20(phases: Any) -> None:
    table, told = csv("sbc-matrix/cifar_resnet20/diagonals.csv"), readme("sbc-matrix")
    assert (table["decides"].sum(), len(table)) == (2, 6)
    assert f"(in all six {range_of(100 * table['temporal'], 0)} % against" in told
    assert f"{range_of(100 * table['total'], 0)} %): a row of n = 125" in told
    pairs = phases.rivals(csv("sbc-curves/cifar_resnet20/sparsity.csv"))
    wins, levels = pairs["temporal_wins"].sum(), pairs["levels"].sum()
    curves = readme("sbc-curves")
    assert f"delay alone is better at {wins} of {levels} pairs" in curves
    last = pairs[pairs["stage"] == 375]
    assert (last["temporal_wins"] == last["levels"]).all()
    gaps = " and ".join(f"{100 * gap:.1f}" for gap in last["gap"])
    assert f"by {gaps} points on average" in curves
    assert f"at {pairs['both_wins'].sum()} of {levels}." in curves


@cache
def chooses(method: str) -> bool:
    """Whether a method has error feedback and sends some entries alone; SBC does not count."""
    text = resolve(method, 0.1 if takes_fraction(method) else None).text
    return bool(re.match(r"ef\(.*(topk|randk|subset|threshold)\(", text))


def masked_pages() -> set[str]:
    """The experiments whose committed runs masked momentum for other methods than SBC.

    ``auto`` did so in files of 0.1.0, which name no version.
    """
    found = set()
    for path in HOME.glob("*/results/**/*.toml"):
        run = tomllib.loads(path.read_text(encoding="utf-8"))
        for cell in run["cells"].values():
            training = {**run.get("training", {}), **cell.get("training", {})}
            strategy = algorithm_of(cell.get("strategy", run.get("strategy", "dsgd")))
            method = cell.get("method", run.get("method"))
            masking = training.get("momentum_masking", "auto")
            on = masking == "on" or (masking != "off" and "version" not in run)
            if on and not strategy.gradients and chooses(method):
                found.add(path.relative_to(HOME).parts[0])
    return found


def test_pages_with_masked_methods_say_so_at_the_top() -> None:
    """like-for-like has no list of runs, and position-coding masks by itself."""
    pages = masked_pages() | {"like-for-like", "position-coding"}
    assert pages >= {"sbc-table1", "sbc-table2", "sbc-curves", "sbc-matrix"}
    for name in pages:
        lines = (HOME / name / "README.md").read_text(encoding="utf-8").splitlines()
        lines = [line for line in lines if not line.startswith("<!--")]
        note = " ".join(itertools.takewhile(lambda line: line.startswith(">"), lines[2:]))
        assert re.search("momentum masking|Momentum is masked", note), name


def test_what_crossings_note_says_of_its_runs() -> None:
    """Before runs without masking are merged: how many places they are for; then their hours."""
    told, text = csv("crossing/differences.csv"), readme("crossing").replace("\n> ", " ")
    again = HOME / "crossing" / "results" / "again.csv"
    if again.exists():
        hours = pd.read_csv(again).groupby("arm")["core_seconds"].sum() / 3600
        assert (
            f"Core hours: {hours.iloc[-1]:.1f}" in text or f"{hours['topk']:.1f} for `topk`" in text
        )
        assert "crossing" not in masked_pages()
        return
    met = told.groupby(PLACE_OF_CROSSING)["topk"].first()
    masked = met.isin(["stc", "topk4"]).sum()
    assert f"At {masked} of the {len(met)} places the top-k method is `stc` or `topk4`" in text
    assert f"because top-k was masked at {masked} of the {len(met)} places.**" in text

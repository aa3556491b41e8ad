"""Numbers in prose, those of the headlines first, are what the results in the checkout give."""

import itertools
import re
import tomllib
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

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


def test_figures_5_to_8_bits_to_the_common_error() -> None:
    experiment("sbc-curves")
    budgets = experiment("sbc-curves").budgets
    fewer = []
    for task in ("fashion_lenet5", "digits"):
        bits = budgets(csv(f"sbc-curves/{task}/curves.csv")).set_index("method")["up_bits"]
        dropped = bits["Gradient dropping"] / bits["SBC (1)"]
        fewer += [f"{dropped:.1f}", f"{bits['Baseline'] / bits['SBC (3)']:.0f}"]
    text = readme("sbc-curves")
    assert f"SBC (1) takes {fewer[0]} times fewer bits than gradient dropping" in text
    digits = f"digits: {fewer[2]} and {fewer[3]}"
    assert f"SBC (3) {fewer[1]} times fewer than the baseline; {digits}" in text


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


def test_what_380_times_is_in_bits() -> None:
    rows, page = csv("ncf-movielens/table2.csv").set_index("name"), said("docs/coverage.md")
    pairs = [
        rows.loc[["p0-qsgd", "skcompress"], name] for name in ("relative_volume", "paper_volume")
    ]
    (bloom, sketch), (theirs, other) = pairs
    assert f"{bloom:.4f} and {sketch:.4f} of dense (a ratio of {sketch / bloom:.2f})" in page
    assert f"in the paper {theirs:.4f} and {other:.4f} ({other / theirs:.2f})" in page
    ratios = f"{sketch / bloom:.2f} times those of BF-P0 with QSGD ({other / theirs:.2f} times"
    assert ratios in readme("ncf-movielens")


def test_volumes_of_ncf() -> None:
    ours = csv("ncf-movielens/table2.csv").set_index("name")["relative_volume"]["p0-qsgd"]
    assert f"BF-P0 with QSGD {ours:.4f} where the paper prints 0.2063" in readme("ncf-movielens")
    bits = csv("ncf-movielens/positions.csv").set_index("code")["position_bits_an_entry"]
    runs = f"Run lengths take {bits['rle']:.3f} bits per entry"
    bloom = f"the Bloom filter takes {bits['bloom(0.6)']:.3f}"
    assert f"{runs} and lose nothing; {bloom}" in readme("ncf-movielens")
    assert round(bits["bloom(0.6)"] / bits["rle"]) == 7
    assert "a seventh of the Bloom filter's bits" in said("docs/experiments.md")


def test_bloom_filters_on_resnet20() -> None:
    text = readme("deepreduce")
    rows = csv("deepreduce/cifar_resnet20/tables.csv").set_index("name")
    at = {p: [rows["score"][f"topr-{p}-{e}"] for e in (0.001, 0.01, 0.1)] for p in ("p1", "p2")}
    for scores in at.values():
        assert f"| {', '.join(f'{score:.1f}' for score in scores)} %" in text
    gains = [b - a for a, b in zip(at["p1"], at["p2"], strict=True)]
    said_ = f"by {gains[1]:.0f} and {gains[2]:.0f} points; at 0.001 the {gains[0]:.0f} points"
    assert said_ in text
    curve = csv("deepreduce/cifar_resnet20/curves.csv").query("name == 'dense'")
    before, last = curve["score"].iloc[-2:]
    assert f"ends at {last:.2f} % and was at {before:.2f} % fifty iterations before" in text
    exact = [
        "topr",
        "topr-p2-0.001",
        "rle",
        "fit-poly",
        "fit-dexp",
        "qsgd",
        "p2-qsgd",
        "skcompress",
        "golomb",
    ]
    assert f"end at {range_of(rows['score'][exact], 1)} %" in text


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


def test_where_masks_and_top_k_cross() -> None:
    law, text = csv("crossing/law.csv").iloc[0], readme("crossing")
    assert law["slope"] > 0 and f"(p = {law['chance']:.2f})" in text
    assert f"{law['places']:.0f} of the plan's 57 places" in text
    ends = (law["slope"] + z * law["error"] for z in (-1.96, 1.96))
    assert "95 % interval, {:.2f} to {:.2f} per tenfold R p".format(*ends) in text
    told = csv("crossing/differences.csv").groupby(["setting", "iterations", "budget"])
    gains, points = told["gain"].mean(), told["points"].mean()
    assert f"above zero at {(gains > 0).sum()} of {len(gains)} places" in text
    mnist = f"by {range_of(gains['mnist_skewed'], 1)} in the log-odds of an error on MNIST, which"
    assert f"{mnist} is {range_of(points['mnist_skewed'], 0)} points" in text
    alike = csv("crossing/law.csv").iloc[1]
    same = gains[told["bits"].mean().between(0.8, 1.25)]
    assert (alike["of"], len(same), len(gains) - len(same)) == ("equal bits", alike["places"], 9)
    assert f"The {len(same)} places where the mask sent 0.8 to 1.25 of top-k's bits" in text
    slope = f"of {alike['slope']:.2f} ± {alike['error']:.2f} (p = {alike['chance']:.2f})"
    assert f"{slope}, and the mask's mean gain is above zero at {(same > 0).sum()} of them" in text
    digits = gains["digits_skewed"]
    assert ((digits < 0).sum(), len(digits)) == (7, 9) and "zero at seven of nine places" in text
    x = told["x"].mean()
    slopes = {s: np.polyfit(x[s], gains[s], 1)[0] for s in x.index.unique("setting")}
    least, most = (pick(slopes, key=lambda s: slopes[s]) for pick in (min, max))
    assert (least, most) == ("mnist_iid", "digits_skewed")
    between = f"from {slopes[least]:.2f} (MNIST iid) to {slopes[most]:+.2f} (skewed digits)"
    assert between in text


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


def named(names: Any) -> str:
    *some, last = names
    return f"{', '.join(some)} and {last}"


def test_the_headline_of_like_for_like() -> None:
    told = readme("like-for-like").replace("\n", " ")
    verdict = csv("like-for-like/verdict.csv").set_index("method")
    assert verdict.index[0] == "sparseloco" and "fifteen places SparseLoCo errs least" in told
    chances = verdict["chance"].iloc[1:]
    near = chances.index[chances > 0.05]
    assert [*near] == ["stc", "eden", "natural", "uveqfed", "sketched"]
    words = "STC, EDEN, natural dithering with Huffman's code, UVeQFed and sketched updates"
    assert f"not told from it: {words}** (Holm's p is at least {chances[near].min():.2g})" in told
    ranks = verdict["rank"].sort_values().iloc[:3]
    assert [*ranks.index] == ["natural", "eden", "sparseloco"]
    apart = ranks.max() - ranks.min()
    assert f"put natural, eden and SparseLoCo first, within {apart:.1f} of each other" in told
    far = chances.drop(near)
    assert len(far) == 12
    assert f"The twelve others err more (Holm's p is at most {far.max():.1g})" in told
    assert [*verdict.index[verdict["equal"]]] == ["sparseloco", "stc"]
    assert verdict["elsewhere"].isna().idxmax() == "sparseloco"
    far = verdict.index[verdict["elsewhere"] <= 0.05]
    assert f"which tells {named(far)} from it, and no other" in told
    alike = csv("like-for-like/places.csv").set_index("method")
    assert alike.index[0] == "sparseloco"
    natural, eden = alike.loc[["natural", "eden"], "seeds"]
    rest = alike["seeds"].drop(["natural", "eden"]).max()
    assert f"(Holm's p is {natural:.2g} and {eden:.2g}; of the others at most {rest:.1g})" in told
    assert natural > 0.05 > rest
    assert [*alike.index[alike["chance"] < 0.05]] == ["topk", "scalars"]
    without = csv("like-for-like/leaving.csv").set_index("without")
    assert without["best"].tolist() == ["natural", *["sparseloco"] * 4]
    also = {*without.loc["digits_skewed", "near"].split(", ")} - {*near, "sparseloco"}
    assert also == {"qsgd", "floats", "ef_sign"}


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
    assert pages >= {"crossing", "sbc-table1", "sbc-table2", "sbc-curves", "sbc-matrix"}
    for name in pages:
        lines = (HOME / name / "README.md").read_text(encoding="utf-8").splitlines()
        note = " ".join(itertools.takewhile(lambda line: line.startswith(">"), lines[2:]))
        assert re.search("momentum masking|Momentum is masked", note), name

"""What stands in the columns "paper" is what the papers print: their texts are searched for it."""

import re
from functools import cache

import pytest

from fedsim.measure.theory.tables import THEORY_TABLES
from tests.support.experiments import experiment
from tests.support.markdown import ROOT

PAPERS = ROOT.parent / "shared" / "papers"
SATTLER, AJI = "sparse-binary-compression-sattler-2018", "gradient-dropping-aji-heafield-2017"
GAJJALA = "huffman-gradient-encoding-gajjala-2020"
HORVATH, KOSTOPOULOU = "natural-compression-horvath-2022", "deepreduce-kostopoulou-2021"

pytestmark = pytest.mark.skipif(
    not PAPERS.is_dir(), reason="the papers' texts are not part of the checkout"
)


@cache
def printed(paper: str) -> str:
    """A paper's text, with one space for any white space and without LaTeX's marks."""
    text = (PAPERS / f"{paper}.txt").read_text(encoding="utf-8")
    plain = text.replace("\\pm", "±").replace("\\%", "%").replace("$", "").replace("−", "-")
    return re.sub(r"\s+", " ", plain)


TABLE2 = {
    "mnist_lenet5": ("LeNet5-Caffe @MNIST", "Accuracy"),
    "cifar_resnet32": ("ResNet32 @CIFAR", "Accuracy"),
    "imagenet_resnet50": ("ResNet50 @ImageNet", "Accuracy"),
    "word_lstm": ("WordLSTM @PTB", "Perplexity"),
    "char_lstm": ("CharLSTM @Shakespeare", "Perplexity"),
}
"""Each row of Table II: what the paper calls it, and its metric."""


@pytest.mark.parametrize("task", TABLE2)
def test_table_2_of_sbc(task: str) -> None:
    rows = experiment("sbc-table2", "rows").PAPER
    assert set(rows) == {*TABLE2, "mnist_lenet5_caffe"}
    assert rows["mnist_lenet5_caffe"] == rows["mnist_lenet5"]
    title, metric = TABLE2[task]
    assert list(rows[task]) == ["baseline", "dropping", "fedavg", "sbc1", "sbc2", "sbc3"]
    scores = " ".join(f"{score:g}" for score, _ in rows[task].values())
    ratios = " ".join(f"×{ratio}" for _, ratio in rows[task].values())
    assert f"{title} {metric} {scores} Compression {ratios} " in printed(SATTLER)


@pytest.mark.parametrize("name", ["sbc1", "sbc2", "sbc3"])
def test_table_1_of_sbc_has_the_ranges_of_table_2(name: str) -> None:
    paper = experiment("sbc-table2", "rows").PAPER
    (row,) = [
        row for row in THEORY_TABLES["tableI"].rows(0) if row["method"] == f"SBC ({name[-1]})"
    ]
    low, high = map(int, row["printed"].split("-"))
    ratios = [rows[name][1] for rows in paper.values()]
    assert low == min(ratios) and high == max(ratios)


def test_table_1_of_sbc() -> None:
    by_method = {row["method"]: row["printed"] for row in THEORY_TABLES["tableI"].rows(0)}
    names = [
        "baseline",
        "dense quantization (signSGD, TernGrad, QSGD)",
        "gradient dropping, DGC",
        "Federated Averaging",
        "SBC, all ranges",
    ]
    text = printed(SATTLER)
    start = text.index("Compression Rate ×1 ")
    line = text[start : text.index("TABLE I:", start)].strip()
    ratios = re.findall(r"×(\d+)(?: - ×(\d+))?", line)
    assert ["-".join(filter(None, ends)) for ends in ratios] == [by_method[name] for name in names]


def test_table_1_of_gradient_dropping() -> None:
    rows = experiment("gradient-dropping", "rows").ROWS
    text = printed(AJI)
    lines = {"dense": "0%", "drop-90": "90%", "drop-99": "99%", "drop-99.9": "99.9%"}
    for name, ratio in lines.items():
        paper = rows[name].paper
        assert f" {ratio} {paper.words} {paper.images} " in text
    assert {name for name, row in rows.items() if row.paper.images} == set(lines)


def test_figure_6_of_gradient_dropping() -> None:
    rows = experiment("gradient-dropping", "rows").ROWS
    dense, dropped = rows["dense"].paper, rows["drop-99"].paper
    assert f"reached {dense.accuracy_percent:.2f}% final accuracy" in printed(AJI)
    assert f"reached {dropped.accuracy_percent:.2f}% final accuracy with a 99% drop" in printed(AJI)
    assert dense.ratio == 1 and f"exchanging {dropped.ratio}x less data" in printed(AJI)
    shown = {name for name, row in rows.items() if row.paper.accuracy_percent or row.paper.ratio}
    assert shown == {"dense", "drop-99"}


def test_tables_3_and_4_of_huffman_encoders() -> None:
    """Scores may have more zeros in print: 53.00."""
    gajjala, text = experiment("huffman-encoders", "gajjala"), printed(GAJJALA)
    assert len(gajjala.RATIOS) == 12
    tables = {3: text[text.index("Table 3: ") :], 4: text[text.index("Table 4: ") :]}
    for row in gajjala.RATIOS:
        ratios = " ".join(map(str, row.ratios))
        line = rf" {row.quantizer} {row.score:g}(\.?0+)? {ratios} "
        model = f"{row.baseline:g} " if row.model == "LSTM" else f"{row.model} {row.baseline:g} "
        rest = tables[row.table][tables[row.table].index(model) :][:180]
        assert re.search(line, rest), row


def test_tables_1_and_2_of_huffman_encoders() -> None:
    gajjala, text = experiment("huffman-encoders", "gajjala"), printed(GAJJALA)
    names = {
        "ResNet20": "ResNet-20",
        "VGG16": "VGG-16",
        "GoogLeNet": "GoogLeNet",
        "ResNet50": "ResNet-50",
        "LSTM": "PTB-LSTM",
    }
    assert set(gajjala.SECONDS) == set(gajjala.PARAMETERS) == set(names)
    for name, title in names.items():
        numbers = r" ".join(rf"{re.escape(f'{s:g}')}0?" for s in gajjala.SECONDS[name])
        assert re.search(rf"{title} {numbers} ", text), name
        model = title.removeprefix("PTB-")
        count = f"{gajjala.PARAMETERS[name]:,}"
        assert re.search(rf" {model} \[[^,]{{1,40}}\] {count} ", text), name


def test_table_2_of_natural_compression() -> None:
    rows = {row.name: row for row in experiment("topk-cnat", "rows").TABLE2}
    assert len(rows) == 6
    for k in ("0.39", "1.56", "6.25"):
        plain, nat = (
            f"({row.volume:g}%, {row.accuracy:.2f} ± {row.spread:.2f}%)"
            for row in (rows[f"topk-{k}"], rows[f"topk-cnat-{k}"])
        )
        assert f"| {k}% | {plain} | {nat} |" in printed(HORVATH)


def test_table_3_of_natural_compression() -> None:
    rows = {row.name: row for row in experiment("topk-cnat", "rows").TABLE3}
    titles = {
        "sgd": ("SGD", ""),
        "sign": ("SignSGD", "2.5"),
        "ef-sign": ("EF-SignSGD", "2.5"),
        "powersgd-2": ("PowerSGD rank-2", "0.6"),
        "powersgd-7": ("PowerSGD rank-7", "1.9"),
    }
    assert set(rows) == {*titles, "topk-cnat-2.5", "topk-cnat-0.6", "topk-cnat-1.9"}
    for name, (title, k) in titles.items():
        row, line = rows[name], "N/A | N/A"
        if k:
            nat = rows[f"topk-cnat-{k}"]
            line = f"{k}% | {nat.accuracy:.2f} ± {nat.spread:.2f}%"
            assert nat.volume == row.volume
        ours = f"| {title} | {row.volume:g}% | {row.accuracy:.2f} ± {row.spread:.2f}%"
        assert f"{ours} | {line} |" in printed(HORVATH), name


def test_table_2_of_deepreduce() -> None:
    rows = experiment("ncf-movielens").ROWS
    titles = {
        "dense": "Baseline",
        "p2-fit-poly": "BF-P2",
        "skcompress": "SKCompress",
        "p0-qsgd": "BF-P0",
    }
    assert {name for name, row in rows.items() if row.volume or row.hit_rate} == set(titles)
    for name, title in titles.items():
        row = rows[name]
        assert f" {title} {row.volume:g} {row.hit_rate:.4f}" in printed(KOSTOPOULOU), name


def test_the_readme_of_table_2_names_the_row_that_was_not_run() -> None:
    """What its last section says of ResNet50, in prose."""
    paper = experiment("sbc-table2", "rows").PAPER
    text = re.sub(r"\s+", " ", (ROOT / "experiments/sbc-table2/README.md").read_text())
    resnet = paper["imagenet_resnet50"]
    said = [f"{resnet[f'sbc{i}'][0]:g} ×{resnet[f'sbc{i}'][1]}" for i in (1, 2, 3)]
    baseline, rest = resnet["baseline"][0], f"SBC (1) {said[0]}, (2) {said[1]}, (3) {said[2]}"
    assert f"(paper: baseline {baseline:g}; {rest})" in text

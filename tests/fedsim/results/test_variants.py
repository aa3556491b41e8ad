"""Folders that differ in settings, side by side: what may differ is told, the rest refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsim import plot
from fedsim.ground.errors import UsageError
from fedsim.results.labels import FACTS, methods_of, of_method, several
from fedsim.results.load import Results, load
from fedsim.results.merge import settings_of, variants
from fedsim.show.curves import pareto_points
from fedsim.show.report import summarize
from fedsim.show.style import CellKey, looks
from fedsim.show.tables import add_difference, summary_texts
from tests.support.page import Page
from tests.support.sweepmaker import TOPK, make_sweep, say


def three(root: Path) -> tuple[Path, Path, Path]:
    """SBC at two learning rates, gradient dropping with a strategy of its own."""
    make_sweep(root / "a", (1, 10), (0.1, 0.01), failed=[(10, 0.01)])
    make_sweep(root / "b", (1, 10), (0.1, 0.01))
    make_sweep(root / "c", (1, 10), (0.1, 0.01), form=TOPK)
    say(root / "b", "lr = 0.5\nworkers = 3")  # workers changes no number
    say(root / "c", 'strategy = "fedadam"\nlr = 0.25')
    return root / "a", root / "b", root / "c"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return load(*three(tmp_path_factory.mktemp("tuned")))


def test_labels_say_in_what_the_folders_differ(tuned: Results) -> None:
    assert methods_of(tuned.runs) == [
        "gradient_dropping (strategy = fedadam, lr = 0.25)", "sbc", "sbc (lr = 0.5)",
    ]  # fmt: skip
    assert tuned.runs["label"].value_counts()[["sbc", "sbc (lr = 0.5)"]].tolist() == [4, 4]
    dense = sorted(label for label in set(tuned.runs["label"]) if label.startswith("dense"))
    assert dense == ["dense", "dense (lr = 0.5)", "dense (strategy = fedadam, lr = 0.25)"]
    assert set(tuned.rounds["label"]) == set(tuned.runs["label"]) >= set(tuned.layers["label"])
    assert tuned.runs.columns[-4:].tolist() == ["variant", *FACTS]


def test_the_same_settings_have_no_variant(tmp_path: Path) -> None:
    make_sweep(tmp_path / "a", (10,), (0.1,))
    make_sweep(tmp_path / "b", (10,), (0.1,), form=TOPK)
    say(tmp_path / "a", 'strategy = "dsgd"\ndownlink = "raw"')  # what is left out in b
    say(tmp_path / "b", "jobs_of_a_later_version = 3")
    runs = load(tmp_path / "a", tmp_path / "b").runs
    assert "variant" not in runs.columns and sorted(set(runs["label"])) == [
        "dense", "gradient_dropping", "sbc",
    ]  # fmt: skip


def test_a_setting_at_its_default_is_told_by_the_others(tmp_path: Path) -> None:
    make_sweep(tmp_path / "a", (10,), (0.1,), baseline=False)
    make_sweep(tmp_path / "b", (10,), (0.1,), baseline=False)
    say(tmp_path / "b", "lr = 0.5")
    results = load(tmp_path / "a", tmp_path / "b")
    told = {"a/n10-p0.1-s0": "", "b/n10-p0.1-s0": "lr = 0.5"}
    assert results.runs["variant"].to_dict() == told
    cells = {name: {"task": "digits"} for name in told}
    assert variants(cells, settings_of(results.given)) == told


def test_each_method_has_the_reference_of_its_own_settings(tuned: Results) -> None:
    for label in methods_of(tuned.runs):
        own = of_method(tuned.runs, label)
        dense = "dense" + label.removeprefix("gradient_dropping").removeprefix("sbc")
        assert set(own["label"]) == {label, dense} and (own["label"] == dense).sum() == 1
    assert len(plot.matrix(tuned.runs).axes) == 4  # three planes and the bar


def test_differences_go_by_the_reference_of_the_same_settings(tuned: Results) -> None:
    runs = tuned.runs.copy()
    fast = (runs["gradient"] == 1) & (runs["variant"] == "lr = 0.5")
    runs.loc[fast, "metric"] -= 0.25
    told = add_difference(runs)
    change = told["difference"] - add_difference(tuned.runs)["difference"]
    moved = (runs["variant"] == "lr = 0.5") & ~fast & runs["metric"].notna()
    assert change[moved].round(9).unique().tolist() == [0.25]
    assert change[~moved].dropna().round(9).unique().tolist() == [0]
    headings, rows = summary_texts(runs)
    assert [texts[5] for texts, _ in rows if texts[0].startswith("dense")] == ["dense"] * 3
    alone = runs[~runs["label"].isin(["dense", "dense (lr = 0.5)"])]  # one reference is left
    base = alone.loc[alone["gradient"] == 1, "metric"].item()
    expected = (alone["metric"] - base).to_numpy()
    np.testing.assert_allclose(add_difference(alone)["difference"], expected)
    two = runs[runs["label"] != "dense"]  # sbc has two to choose from, and neither is its own
    assert add_difference(two).loc[two["label"] == "sbc", "difference"].isna().all()


def test_references_alone_are_told_apart(tuned: Results) -> None:
    dense = tuned.runs[tuned.runs["label"].isin(["dense", "dense (lr = 0.5)"])]
    assert several(dense) and methods_of(dense) == ["dense", "dense (lr = 0.5)"]
    assert [point.cell.method for point in pareto_points(dense)] == ["dense", "dense (lr = 0.5)"]
    keys = [CellKey(1, 1, method=m, dense=m != "sbc") for m in ("dense", "dense (lr = 0.5)", "sbc")]
    colours = [looks(keys)[key].colour for key in keys]
    assert colours[0] == "#000000" and len(set(colours)) == 3
    one = tuned.runs[tuned.runs["label"].isin(["dense", "dense (lr = 0.5)", "sbc"])]
    assert len(plot.matrix(one).axes) == 2 and len(plot.budget(tuned.rounds).axes[0].lines) == 6


def test_seeds_are_those_of_one_variant(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_sweep(tmp_path / name, (10,), (0.1,), seeds=(0, 1))
    say(tmp_path / "b", "lr = 0.5")
    _, rows = summary_texts(load(tmp_path / "a", tmp_path / "b").runs)
    shown = [texts[:2] for texts, kind in rows if kind == "seeds"]
    labels = ("dense", "dense (lr = 0.5)", "sbc", "sbc (lr = 0.5)")
    assert shown == [[label, what] for label in labels for what in ("mean", "± sd")]


@pytest.mark.slow
def test_the_page_lists_them_by_method(tmp_path: Path) -> None:
    folders = three(tmp_path)
    cells, path, _ = summarize(*folders, out=tmp_path / "both")
    page = Page(path.read_text(encoding="utf-8"))
    assert "In which methods differ method lr strategy dense default dsgd" in page.text
    assert "sbc (lr = 0.5) 0.5 dsgd" in page.text
    assert "gradient_dropping (lr = 0.25, strategy = fedadam) 0.25 fedadam" in page.text
    assert "Dense reference (n = 1, p = 1): dense: accuracy 0.9" in page.text
    assert "; dense (lr = 0.5): accuracy 0.9" in page.text
    table = pd.read_csv(tmp_path / "both" / "summary.csv", keep_default_na=False)
    assert table["variant"].tolist() == [cell["variant"] for cell in cells]
    assert {*table["variant"]} == {"", "lr = 0.5", "lr = 0.25, strategy = fedadam"}


@pytest.mark.parametrize(
    ("changes", "line", "words"),
    [
        ({"metric_name": "top5"}, "", "metric_name is 'accuracy' in the one and 'top5'"),
        ({"parameters": 7}, "", "parameters is 5000 in the one and 7"),
        ({"data_source": "mine"}, "", "data_source is 'scikit-learn, embedded' in the one"),
        ({}, "test_samples = 100", "test_samples is None in the one and 100"),
    ],
)
def test_what_no_table_can_hold_together(
    changes: dict[str, object], line: str, words: str, tmp_path: Path
) -> None:
    make_sweep(tmp_path / "a", (10,), (0.1,), failed=[(1, 1)])
    make_sweep(tmp_path / "b", (10,), (0.1,), form=TOPK, **changes)
    say(tmp_path / "b", line)
    with pytest.raises(UsageError, match=f"cells/.*cells/.* cannot stand in one table: {words}"):
        load(tmp_path / "a", tmp_path / "b")
    make_sweep(tmp_path / "c", (10,), (0.1,), task="other", **changes)
    say(tmp_path / "c", line)
    assert load(tmp_path / "a", tmp_path / "c").runs["task"].nunique() == 2  # told by the task


def test_the_same_data_in_another_form_may_be_compared(tmp_path: Path) -> None:
    digest = "training images sha256 0123456789ab"
    one = {"data_source": f"MNIST, unpacked idx, {digest}"}
    make_sweep(tmp_path / "a", (10,), (0.1,), **one)
    make_sweep(tmp_path / "b", (10,), (0.2,), data_source=f"MNIST, gzip idx, {digest}")
    assert len(load(tmp_path / "a", tmp_path / "b").runs) == 3
    make_sweep(tmp_path / "c", (10,), (0.3,), data_source=f"MNIST, gzip idx, {digest[:-1]}c")
    with pytest.raises(UsageError, match="data_source is 'MNIST, unpacked"):
        load(tmp_path / "a", tmp_path / "c")
    for name, version in (("d", "1.6.1"), ("e", "1.7.0rc1")):
        make_sweep(tmp_path / name, (10,), (0.1,), data_source=f"scikit-learn {version}, digits")
    assert len(load(tmp_path / "d", tmp_path / "e").runs) == 2


def test_a_cell_whose_settings_cannot_be_read_goes_by_its_numbers(tmp_path: Path) -> None:
    make_sweep(tmp_path / "a", (1,), (0.1,))
    make_sweep(tmp_path / "b", (1,), (0.1,), form=TOPK)
    (tmp_path / "b" / "cells" / "n1-p1-s0" / "config.toml").unlink()
    assert len(load(tmp_path / "a", tmp_path / "b").runs) == 3  # the same numbers
    make_sweep(tmp_path / "c", (1,), (0.1,), form=TOPK, clients=9)
    (tmp_path / "c" / "cells" / "n1-p1-s0" / "config.toml").write_text("= broken")
    with pytest.raises(UsageError, match=r"other numbers \(clients 4 and 9\).*cannot be read"):
        load(tmp_path / "a", tmp_path / "c")

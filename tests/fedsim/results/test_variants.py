"""Cells that differ in settings, side by side: what may differ is told, the rest refused."""

from pathlib import Path

import numpy as np
import pytest

from fedsim import plot
from fedsim.ground.errors import UsageError
from fedsim.results.labels import FACTS, methods_of, of_method, several
from fedsim.results.load import Results, load_results
from fedsim.show.curves import pareto_points
from fedsim.show.style import CellKey, looks
from fedsim.show.tables import add_difference, summary_texts
from tests.support.sweepmaker import TOPK, make_run, make_sweep, say


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
    return load_results(*three(tmp_path_factory.mktemp("tuned")))


def test_labels_say_in_what_the_folders_differ(tuned: Results) -> None:
    assert methods_of(tuned.runs) == [
        "gradient_dropping (strategy = fedadam, lr = 0.25)",
        "sbc",
        "sbc (lr = 0.5)",
    ]
    assert tuned.runs["label"].value_counts()[["sbc", "sbc (lr = 0.5)"]].tolist() == [4, 4]
    dense = sorted(label for label in set(tuned.runs["label"]) if label.startswith("dense"))
    assert dense == ["dense", "dense (lr = 0.5)", "dense (strategy = fedadam, lr = 0.25)"]
    assert set(tuned.rounds["label"]) == set(tuned.runs["label"]) >= set(tuned.layers["label"])
    assert tuned.runs.columns[-4:].tolist() == ["variant", *FACTS]


def test_each_method_has_the_reference_of_its_own_settings(tuned: Results) -> None:
    for label in methods_of(tuned.runs):
        own = of_method(tuned.runs, label)
        dense = "dense" + label.removeprefix("gradient_dropping").removeprefix("sbc")
        assert set(own["label"]) == {label, dense} and (own["label"] == dense).sum() == 1
    assert len(plot.matrix(tuned.runs).figure.axes) == 4  # three planes and the bar


def test_differences_go_by_the_reference_of_the_same_settings(tuned: Results) -> None:
    runs = tuned.runs.copy()
    fast = (runs["gradient"] == 1) & (runs["variant"] == "lr = 0.5")
    runs.loc[fast, "metric"] -= 0.25
    told = add_difference(runs)
    change = told["difference"] - add_difference(tuned.runs)["difference"]
    moved = (runs["variant"] == "lr = 0.5") & ~fast & runs["metric"].notna()
    assert change[moved].round(9).unique().tolist() == [0.25]
    assert change[~moved].dropna().round(9).unique().tolist() == [0]
    headings, rows, _ = summary_texts(runs)
    assert headings[:3] == ["method", "strategy", "lr"]
    shown = [texts[1:3] for texts, _ in rows if texts[0] == "dense" == texts[7]]
    assert shown == [["dsgd", "default"], ["dsgd", "0.5"], ["fedadam", "0.25"]]
    alone = runs[~runs["label"].isin(["dense", "dense (lr = 0.5)"])]  # one reference is left
    base = alone.loc[alone["gradient"] == 1, "metric"].item()
    expected = (alone["metric"] - base).to_numpy()
    np.testing.assert_allclose(add_difference(alone)["difference"], expected)
    two = runs[runs["label"] != "dense"]  # sbc has two to choose from, and neither is its own
    assert add_difference(two).loc[two["label"] == "sbc", "difference"].isna().all()


def test_references_alone_are_told_apart(tuned: Results) -> None:
    dense = tuned.runs[tuned.runs["label"].isin(["dense", "dense (lr = 0.5)"])]
    assert several(dense) and methods_of(dense) == ["dense", "dense (lr = 0.5)"]
    assert [cell.method for cell in pareto_points(dense)["cell"]] == ["dense", "dense (lr = 0.5)"]
    keys = [CellKey(1, 1, method=m, dense=m != "sbc") for m in ("dense", "dense (lr = 0.5)", "sbc")]
    colours = [looks(keys)[key].colour for key in keys]
    assert colours[0] == "#000000" and len(set(colours)) == 3
    sbc = tuned.runs[tuned.runs["label"].isin(["dense", "dense (lr = 0.5)", "sbc"])]
    assert len(plot.matrix(sbc).figure.axes) == 2
    assert len(plot.budget(tuned.rounds).figure.axes[0].lines) == 6


def test_seeds_are_those_of_one_variant(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_sweep(tmp_path / name, (10,), (0.1,), seeds=(0, 1))
    say(tmp_path / "b", "lr = 0.5")
    runs = load_results(tmp_path / "a", tmp_path / "b").runs
    headings, rows, _ = summary_texts(runs, per_seed=True)
    assert headings[:4] == ["lr", "seed", "n", "p"]  # and no method, as there is one
    shown = [texts[:3] for texts, kind in rows if kind == "seeds"]
    assert shown == [[lr, "mean", n] for n in ("1", "10") for lr in ("default", "0.5")]
    _, rows, _ = summary_texts(runs, ["label", "seed"])  # which then says the settings itself
    labels = ["dense", "dense (lr = 0.5)", "sbc", "sbc (lr = 0.5)"]
    assert [texts[0] for texts, _ in rows] == labels


def test_settings_stand_by_their_values_not_by_their_digits(tmp_path: Path) -> None:
    rates = ["1e-05", "0.5", "2.0", "10.0"]
    for lr in reversed(rates):
        make_sweep(tmp_path / lr, (10,), (0.1,))
        say(tmp_path / lr, f"lr = {lr}")
    runs = load_results(*tmp_path.iterdir()).runs
    assert methods_of(runs) == [f"sbc (lr = {rate})" for rate in rates]
    _, rows, _ = summary_texts(runs)
    assert [float(texts[0]) for texts, _ in rows] == [*map(float, rates)] * 2


def test_what_no_table_can_hold_together(tmp_path: Path) -> None:
    make_sweep(tmp_path / "a", (10,), (0.1,), failed=[(1, 1)])
    make_sweep(tmp_path / "b", (10,), (0.1,), form=TOPK, metric_name="top5")
    told = "cells/.*cells/.* cannot stand in one table: metric_name is 'accuracy' in the one and 't"
    with pytest.raises(UsageError, match=told):
        load_results(tmp_path / "a", tmp_path / "b")
    make_sweep(tmp_path / "c", (10,), (0.1,), task="other", metric_name="top5")
    assert (
        load_results(tmp_path / "a", tmp_path / "c").runs["task"].nunique() == 2
    )  # told by the task


def test_a_cell_whose_settings_cannot_be_read_goes_by_its_numbers(tmp_path: Path) -> None:
    make_sweep(tmp_path / "a", (1,), (0.1,))
    make_sweep(tmp_path / "b", (1,), (0.1,), form=TOPK)
    (tmp_path / "b" / "cells" / "n1-p1-s0" / "config.toml").unlink()
    assert len(load_results(tmp_path / "a", tmp_path / "b").runs) == 3  # the same numbers
    make_sweep(tmp_path / "c", (1,), (0.1,), form=TOPK, clients=9)
    (tmp_path / "c" / "cells" / "n1-p1-s0" / "config.toml").write_text("= broken")
    with pytest.raises(UsageError, match=r"different numbers \(clients 4 and 9\).*cannot be read"):
        load_results(tmp_path / "a", tmp_path / "c")


def test_cells_of_one_folder_are_told_apart_too(tmp_path: Path) -> None:
    make_sweep(tmp_path, (1, 10), (0.1,))
    say(tmp_path, "iterations = 300", "n1-p1-s0")
    make_run(tmp_path / "cells" / "again", 10, 0.1)
    say(tmp_path, "lr = 0.5\nevaluate_every = 7", "again")
    runs = load_results(tmp_path).runs
    assert runs["label"].to_dict() == {
        "n1-p1-s0": "dense (iterations = 300)",
        "n1-p0.1-s0": "sbc",
        "n10-p0.1-s0": "sbc",
        "again": "sbc (lr = 0.5)",
    }


def test_a_method_at_two_rates_is_not_one_line(tmp_path: Path) -> None:
    """n = 1 at one learning rate and n = 10 at another: no cell is there twice."""
    make_sweep(tmp_path, (1, 10), (0.1,))
    say(tmp_path, "lr = 0.5", "n10-*")
    results = load_results(tmp_path)
    told = {"dense", "sbc", "sbc (lr = 0.5)"}
    assert set(results.runs["label"]) == set(results.rounds["label"]) == told
    # One plane and the bar: of the other rate there is a single cell, which is left out.
    assert len(plot.matrix(results.runs).figure.axes) == 2
    assert set(results.rounds["variant"]) == {"", "lr = 0.5"}


def test_a_reference_of_other_settings_is_not_drawn_as_the_methods_own(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,))
    say(tmp_path, "lr = 0.5", "n10-*")
    results = load_results(tmp_path)
    assert several(results.runs) and several(results.rounds)
    assert of_method(results.runs, "sbc (lr = 0.5)").index.tolist() == ["n10-p0.1-s0"]
    cells = [cell.method for cell in pareto_points(results.runs)["cell"]]
    assert cells == ["dense", "sbc (lr = 0.5)"]

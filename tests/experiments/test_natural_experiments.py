"""Natural compression's experiments: their rows, and all of them at smoke scale."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from compressors import parse
from tests.support.commands import Typed
from tests.support.experiments import experiment, made_up


def test_steps_that_are_a_task_s_own() -> None:
    module = experiment("topk-cnat")
    for (task, name), method in module.FITTED.items():
        assert task in module.TASKS and parse(method) != parse(module.ROWS[name].method)
    (cell,) = module.cells("char_lstm", ["sign"], "short", None)
    assert cell.config.method == "sign(0.01)"


@pytest.mark.parametrize(
    ("metric", "matched"), [("accuracy", ["2", "2", "", ""]), ("perplexity", ["1", "1", "", ""])]
)
def test_the_best_top_k_of_no_more_volume(metric: str, matched: list[str]) -> None:
    """Between two methods of top-k the score decides; 3 takes too much, and top-k has none."""
    rows = {  # content in per cent, score
        "sgd": (4.0, 50),
        "powersgd-2": (2.0, 60),
        "powersgd-7": (0.5, 60),
        "topk-1": (4.0, 1),
        "topk-cnat-1": (1.0, 30),
        "topk-cnat-2": (2.0, 40),
        "topk-cnat-3": (4.1, 35),
    }
    frame = pd.DataFrame(
        [
            {"name": n, "content_percent": c, "score": s, "metric": metric}
            for n, (c, s) in rows.items()
        ]
    )
    got = experiment("topk-cnat", "tables").matched(frame)
    names = got["matched"].str.removeprefix("topk-cnat-").tolist()
    assert names == [*matched, "", "", ""]
    assert got["matched_score"].isna().tolist() == [not name for name in names]


def test_every_method_of_the_figures_can_be_read() -> None:
    for methods in experiment("cnat-variance").FAMILIES.values():
        for method in methods:
            parse(method)


def test_measured_variance_and_bits_of_natural_compression() -> None:
    """9 bits and 0.081 to 0.082: a standard normal entry costs 8.2 % of its square on average."""
    module = experiment("cnat-variance")
    point = module.measure("cnat", module.normal(20_000, 5), 2)
    assert 9 <= point.bits_per_entry < 9.01
    assert 0.078 < point.variance < 0.086  # five standard errors of 40,000 entries are 0.003


@pytest.mark.slow
def test_variance_smoke(typed: Typed) -> None:
    said = typed("experiment", "cnat-variance", "--scale", "smoke", "--out", "out")
    assert said.code == 0, said.err
    frame = pd.read_csv(Path("out", "variance.csv"))
    assert set(frame["figure"].astype(str)) == {"1", "16-18"}
    proved = frame[frame["omega_bound"].notna()]
    random = proved["family"].str.contains("S_q")  # one draw of 10,000 entries, 100 kept at least
    assert (proved["omega"] <= proved["omega_bound"] * (1.02 + 0.9 * random)).all()
    assert (Path("out", "variance.png")).stat().st_size > 10_000


@pytest.mark.slow
def test_variance_of_real_updates_smoke(typed: Typed, tmp_path: Path) -> None:
    arguments = ("experiment", "cnat-variance", "--scale", "smoke", "--out", "out")
    only = "cifar_resnet20,char_lstm"
    said = typed(*arguments, "--only", only, "--data", made_up(tmp_path / "data"))
    assert said.code == 0, said.err
    frame = pd.read_csv(Path("out", "real", "real.csv"))
    assert Path("out", "real", "real.png").stat().st_size > 10_000
    assert frame.groupby("task").size().to_dict() == {"char_lstm": 4, "cifar_resnet20": 4}
    cnat = frame[frame["method"] == "cnat"].set_index("task")
    assert cnat["entries"]["cifar_resnet20"] == 269_722
    assert (cnat["omega"] < 1 / 8).all() and (cnat["omega"] > 0.04).all()
    assert ((cnat["omega_normal"] > 0.078) & (cnat["omega_normal"] < 0.086)).all()


@pytest.mark.slow
def test_topk_cnat_smoke(typed: Typed) -> None:
    said = typed("experiment", "topk-cnat", "--scale", "smoke", "--out", "out")
    assert said.code == 0, said.err
    table = Path("out", "digits", "tables.md").read_text()
    assert "Table 2" in table and "PowerSGD rank 2" in table
    curves = pd.read_csv(Path("out", "digits", "curves.csv"))
    assert set(curves["name"]) == set(experiment("topk-cnat").SMOKE)
    frame = pd.read_csv(Path("out", "digits", "tables.csv")).set_index("name")
    assert frame["matched"]["powersgd-2"] == "topk-cnat-0.39"
    ratio = frame["content_percent"]
    # Positions cost about as much, values 9 bits in place of 32.
    assert ratio["topk-cnat-0.39"] < 0.55 * ratio["topk-0.39"]


def test_every_method_of_convergence_is_in_a_pair_and_in_a_panel() -> None:
    module = experiment("cnat-convergence")
    named = {name for pair in module.PAIRS for name in (pair.plain, pair.other)}
    assert named == set(module.METHODS) == {n for panel in module.PANELS.values() for n in panel}


def test_a_pair_holds_within_a_point() -> None:
    module = experiment("cnat-convergence")
    rows = [
        {
            "name": name,
            "accuracy_percent": 80.0,
            "up_bits_per_entry": 32.0,
            "down_bits_per_entry": 32.0,
        }
        for name in module.METHODS
    ]
    rows[1] |= {"accuracy_percent": 79.1, "up_bits_per_entry": 9.0}  # cnat
    rows[3] |= {"accuracy_percent": 78.9}  # sparse-cnat
    pairs = module.compare(pd.DataFrame(rows)).set_index("with")
    assert pairs.loc["cnat", "holds"] and pairs.loc["cnat", "up_saving"] == pytest.approx(32 / 9)
    assert not pairs.loc["sparse-cnat", "holds"]


def test_exponents_by_hand() -> None:
    """floor(log2 |x|), denormals and float32's largest included, zeros left out."""
    module = experiment("cnat-exponents")
    values = torch.tensor([0.0, 1.0, -1.5, 0.25, 2.0**-149, 3e38])
    counts, squares = module.exponents(values)
    by_exponent = {e: int(counts[e - module.LEAST]) for e in (0, -2, -149, 127)}
    assert by_exponent == {0: 2, -2: 1, -149: 1, 127: 1} and counts.sum() == 5
    assert squares[0 - module.LEAST] == 3.25


def test_curves_are_means_of_ten_rounds_and_of_seeds() -> None:
    """Two seeds of 20 rounds whose losses are 1 apart; the metric is there in round 10 alone."""
    rounds = pd.concat(
        pd.DataFrame(
            {
                "run": f"cnat-seed{seed}",
                "round": range(1, 21),
                "iteration": range(1, 21),
                "train_loss": [float(n + seed) for n in range(20)],
                "metric": [0.5 + seed / 10 if n == 9 else float("nan") for n in range(20)],
            }
        )
        for seed in (0, 1)
    )
    lines = experiment("cnat-convergence").curves(SimpleNamespace(rounds=rounds))
    assert [*lines["name"]] == ["cnat", "cnat"] and [*lines["iteration"]] == [10, 20]
    assert [*lines["train_loss"]] == [5.0, 15.0]
    assert [*lines["accuracy_percent"]] == pytest.approx([55, np.nan], nan_ok=True)


def test_a_figure_shows_what_was_run() -> None:
    module = experiment("cnat-convergence")
    table = {"iteration": [10, 20], "train_loss": [1.0, 0.5], "accuracy_percent": [np.nan, 80]}
    names = "none", "cnat", "dsta-1"
    lines = pd.concat(pd.DataFrame({"name": name, **table}) for name in names)
    axes = module.figure("cifar_resnet20", lines).axes
    assert [panel.get_title() for panel in axes[:2]] == ["Fig. 5, 13 to 15", "Controls"]
    assert len(axes) == 6 and [len(panel.lines) for panel in axes] == [2] * 6
    assert [*axes[2].lines[1].get_ydata()] == [0, 0]  # the difference from none


@pytest.mark.slow
def test_convergence_smoke(typed: Typed, tmp_path: Path) -> None:
    only = "digits,cifar_resnet20"
    arguments = ("experiment", "cnat-convergence", "--scale", "smoke", "--only", only)
    said = typed(*arguments, "--out", "out", "--data", made_up(tmp_path / "data"))
    assert said.code == 0, said.err
    frame = pd.read_csv(Path("out", "digits", "methods.csv")).set_index("name")
    bits = frame[["up_bits_per_entry", "down_bits_per_entry"]]
    assert bits.loc["none"].tolist() == pytest.approx([32, 32], rel=0.01)
    assert bits.loc["cnat"].tolist() == pytest.approx([9, 9], rel=0.01)
    assert bits.loc["dnat", "up_bits_per_entry"] == pytest.approx(5, abs=0.03)
    few = pd.read_csv(Path("out", "cifar_resnet20", "methods.csv")).set_index("name")
    assert [*few.index] == ["none", "cnat", "dsta-1", "topk"]
    assert few["up_bits_per_entry"].tolist() == pytest.approx([32.2, 9.2, 2.2, 0.2], abs=0.1)
    for task in only.split(","):
        assert Path("out", task, "convergence.png").stat().st_size > 10_000


@pytest.mark.slow
def test_exponents_smoke(typed: Typed, tmp_path: Path) -> None:
    only = "digits,cifar_resnet20"
    arguments = ("experiment", "cnat-exponents", "--scale", "smoke", "--only", only)
    said = typed(*arguments, "--out", "out", "--data", made_up(tmp_path / "data"))
    assert said.code == 0, said.err
    facts = pd.read_csv(Path("out", "facts.csv")).set_index(["task", "kind"])
    assert (facts.loc["digits", "entries"] == 4 * 21_386).all()
    assert (facts.loc["cifar_resnet20", "entries"] == 4 * 269_722).all()
    gradients = facts.xs("gradient", level="kind")
    assert (gradients["largest"] < 63).all() and (gradients["least"] >= -149).all()
    assert facts["one_class_percent"].between(10, 11).all()
    assert Path("out", "exponents.png").stat().st_size > 10_000

"""Federated averaging on MNIST: rounds by hand, the settings, and the numbers of the page."""

import math
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from tests.support.experiments import experiment
from tests.support.markdown import ROOT

HOME = ROOT / "experiments" / "fedavg"
PUBLISHED = {
    "2nn-iid-b10": 87,
    "2nn-shards-b10": 664,
    "2nn-iid-whole": 1474,
    "2nn-shards-whole": 1796,
    "cnn-iid-e1-whole": 626,
    "cnn-iid-e1-b50": 65,
    "cnn-iid-e1-b10": 34,
    "cnn-iid-e5-b50": 29,
    "cnn-iid-e5-b10": 20,
    "cnn-shards-e1-b10": 350,
    "cnn-shards-e5-b10": 229,
}
"""Rounds in Table 1 (C = 0.1) and Table 2 of the paper."""


@pytest.fixture(scope="module")
def rows() -> Any:
    return experiment("fedavg", "rows")


@pytest.fixture(scope="module")
def tables() -> Any:
    return experiment("fedavg", "tables")


@pytest.mark.parametrize(
    ("accuracy", "rounds"),
    [
        ([0.5, 0.9, 0.8, 1.0], 3.5),
        ([0.96], 1.0),
        ([0.9, 0.95], 2.0),
        ([0.9, 0.94], math.nan),
        ([0.9, 0.5, 0.6, 0.7, 1.0], 4.5),
    ],
)
def test_the_best_so_far_crosses_between_two_rounds(
    accuracy: list[float], rounds: float, tables: Any
) -> None:
    counted = tables.rounds_to(pd.Series(accuracy), 0.95)
    assert counted == pytest.approx(rounds, nan_ok=True)


def test_rows_by_hand(tables: Any) -> None:
    """Of two seeds one is at 97 % between rounds 1 and 2, one between 2 and 3; 10 bits a round."""
    lines = [
        ("2nn-iid-b10", 0, [0.96, 0.98, 0.97]),
        ("2nn-iid-b10", 1, [0.9, 0.96, 0.98]),
        ("2nn-shards-b10", 0, [0.99]),
        ("2nn-shards-b10", 1, [0.5]),
    ]
    curves = pd.concat(
        [
            pd.DataFrame(
                {
                    "name": name,
                    "seed": seed,
                    "round": range(1, len(scores) + 1),
                    "accuracy": scores,
                    "up_bits": [10.0 * (i + 1) for i in range(len(scores))],
                }
            )
            for name, seed, scores in lines
        ]
    )
    frame = tables.compared(curves).set_index("name")
    row = frame.loc["2nn-iid-b10"]
    assert (row["rounds"], row["up_bits"], row["reached"]) == (pytest.approx(2.0), 25.0, 2)
    assert row["rounds_interval"] == pytest.approx(12.706 * 0.5, rel=1e-3)
    missed = frame.loc["2nn-shards-b10"]
    assert (missed["reached"], missed["seeds"]) == (1, 2) and math.isnan(missed["rounds"])


def test_rows_are_the_paper_s(rows: Any) -> None:
    assert {name: row.paper for name, row in rows.ROWS.items() if row.paper} == PUBLISHED
    for row in rows.ROWS.values():
        parts = row.name.removesuffix("-qsgd").removesuffix("-unit").split("-")
        batch = "whole" if row.batch == 600 else f"b{row.batch}"
        assert f"mnist_{parts[0]}" in row.task and parts[-1] == batch
        assert parts[1] == row.partition.removesuffix("(2)")
        assert f"e{row.epochs}" in parts if parts[0] == "cnn" else row.epochs == 1


def test_settings_of_every_run() -> None:
    """100 clients, ten of them a round; the rates' seed is in no run that counts rounds."""
    frame, run = experiment("fedavg").EXPERIMENT, experiment("fedavg")
    names = list(run.ROWS)
    for part, seeds in (("rates", {100}), ("rounds", {0, 1, 2, 3, 4})):
        cells = frame.cells(run.Asked("short", part, names, HOME))
        assert {cell.config.seed for cell in cells} == seeds
        for cell in cells:
            plan = cell.config.plan
            assert (plan.clients, plan.cohort, plan.evaluate_every) == (100, 10, 1)


def csv(part: str, name: str) -> pd.DataFrame:
    return pd.read_csv(HOME / "results" / part / f"{name}.csv")


@pytest.mark.parametrize(("part", "made"), [("rates", "tried"), ("rounds", "compared")])
def test_the_tables_follow_from_the_curves(part: str, made: str, tables: Any) -> None:
    again = getattr(tables, made)(csv(part, "curves"))
    pd.testing.assert_frame_equal(again, csv(part, part), rtol=1e-4, check_dtype=False)


def test_rates_are_those_that_were_chosen(rows: Any) -> None:
    chosen = csv("rates", "rates").query("chosen")
    assert not chosen["row"].duplicated().any()
    for row in chosen.itertuples():
        assert rows.ROWS[row.row].lr == row.lr


@pytest.mark.parametrize(
    ("name", "target", "places"), [("cnn-iid-e1-b10", 0.99, "99 %"), ("2nn-iid-b10", 0.97, "97 %")]
)
def test_the_page_has_the_intervals_of_rounds_and_of_differences(
    name: str, target: float, places: str, tables: Any, rows: Any
) -> None:
    curves = csv("rounds", "curves").groupby(["name", "seed"])
    counts = curves["accuracy"].apply(lambda accuracy: tables.rounds_to(accuracy, target))
    mine = counts[name]
    half = stats.t.ppf(0.975, len(mine) - 1) * mine.sem()
    low, high = mine.mean() - half, mine.mean() + half
    text = " ".join((HOME / "README.md").read_text(encoding="utf-8").split())
    claim = f"at {places} after {mine.mean():.1f} rounds (95 % interval {low:.1f} to {high:.1f}"
    assert len(mine) == 5 and claim in text
    paper = rows.ROWS[name].paper
    assert f"where the paper has {paper}" in text
    assert (low < paper < high) == (name == "cnn-iid-e1-b10")
    overview = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert f"{places} after {mine.mean():.1f} ± {half:.1f} rounds, {paper} in" in overview
    pairs = counts[f"{name}-qsgd"] - mine
    half = stats.t.ppf(0.975, len(pairs) - 1) * pairs.sem()
    way = "fewer" if pairs.mean() < 0 else "more"
    assert f"{abs(pairs.mean()):.1f} rounds {way}" in text
    assert f"{half - pairs.mean():.1f} fewer to {half + pairs.mean():.1f} more)" in text
    bits = curves["up_bits"].last()
    ratio = (bits[name] / bits[f"{name}-qsgd"]).tolist()
    assert ratio == pytest.approx([4] * 5, rel=0.01)


def test_the_scaling_of_pixels_explains_a_part(tables: Any) -> None:
    curves = csv("rounds", "curves").groupby(["name", "seed"])
    counts = curves["accuracy"].apply(lambda accuracy: tables.rounds_to(accuracy, 0.97))
    unit = counts["2nn-iid-b10-unit"]
    text = " ".join((HOME / "README.md").read_text(encoding="utf-8").split())
    for values, words in (
        (unit - counts["2nn-iid-b10"], "takes {:.1f} rounds more (95 % interval {:.1f} to {:.1f}"),
        (unit, "takes {:.1f} rounds (95 % interval {:.1f} to {:.1f})"),
    ):
        half = stats.t.ppf(0.975, len(values) - 1) * values.sem()
        low, high = values.mean() - half, values.mean() + half
        assert words.format(values.mean(), low, high) in text
        assert low > 0 and high < 87

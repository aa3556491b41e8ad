"""Dense and dropped asynchronous updates: the runs, the committed numbers, a run at smoke scale."""

from typing import Any

import pandas as pd
import pytest

from tests.support.experiments import experiment
from tests.support.markdown import ROOT

RESULTS = ROOT / "experiments" / "async-dropping" / "results"


@pytest.fixture(scope="module")
def rows() -> Any:
    """The experiment's list of runs."""
    return experiment("async-dropping", "rows")


def test_pushes_and_pulls_are_dropped_alike_at_all_workers(rows: Any) -> None:
    for cell in rows.cells([], "short", None):
        config = cell.config
        row = rows.ROWS[cell.name.split("-seed")[0]]
        assert config.downlink == config.method == row.method
        assert config.strategy == ("gradients" if cell.name.startswith("sync") else "sharded")
        assert (config.plan.clients, config.temporal) == (4, 1)


def test_the_committed_numbers_say_what_the_page_says() -> None:
    runs = pd.read_csv(RESULTS / "runs.csv")
    assert set(runs.groupby("name")["seed"].nunique()) == {3}
    means = runs.groupby("name")[["images", "target_updates", "target_seconds"]].mean()
    ratio = means["images"] / means.loc["dense", "images"]
    assert 1.6 < ratio["drop-99"] < 1.75  # about 1 / (1 - 0.41), were nothing sent
    assert ratio["drop-90"] < ratio["drop-99"] <= ratio["drop-99.9"]
    waits = runs["name"].str.startswith("sync")
    assert runs.loc[~waits, "staleness"].between(2.9, 3.1).all()
    assert (runs.loc[waits, "staleness"] == 0).all()
    assert f"{ratio['sync']:.2f}" == "0.94" and 1.5 < ratio["sync-drop-99"] < ratio["drop-99"]
    parts = (means / means.loc["dense"])["target_seconds"]
    assert [f"{parts[name]:.2f}" for name in ("drop-90", "drop-99")] == ["0.57", "0.79"]
    updates = means["target_updates"]
    assert f"{updates['drop-99'] / updates['dense']:.1f}" == "1.3"
    assert runs.loc[runs["name"] == "drop-99.9", "target_updates"].isna().all()
    dense = runs[runs["name"] == "dense"]
    assert dense["up_bits_per_entry"].between(24, 24.01).all()  # three quarters of 32 travel


def test_what_the_page_says_of_each_seed() -> None:
    runs = pd.read_csv(RESULTS / "runs.csv")
    seconds, updates = (
        runs.pivot(index="seed", columns="name", values=f"target_{what}")
        for what in ("seconds", "updates")
    )
    assert (seconds["drop-90"] < seconds["drop-99"]).all()
    assert (updates["sync-drop-99"] < updates["drop-99"]).all()
    assert (seconds["sync-drop-99"] < seconds["drop-99"]).all()
    assert (seconds["sync"] < seconds["dense"]).sum() == 2
    images = runs.pivot(index="seed", columns="name", values="images")
    assert f"{images.loc[1, 'drop-99.9'] / images.loc[1, 'dense']:.2f}" == "1.74"
    page = " ".join((RESULTS.parent / "README.md").read_text(encoding="utf-8").split())
    for told in (
        "1.3 times as many updates",
        "0.57 of the dense time, with 99 % 0.79",
        "carries 0.94 of the images",
        "667 ± 46 against 747 ± 83",
        "×1.74 with 99.9 % dropped",
    ):
        assert told in page

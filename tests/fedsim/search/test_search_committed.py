"""The committed search of digits: its page says what its file holds."""

import importlib.util
from statistics import fmean
from types import ModuleType

import pandas as pd
import pytest

from fedsim.results.intervals import tied
from fedsim.search.exploration import TOO_LONG
from fedsim.search.record import FEWEST, too_few
from tests.support.markdown import ROOT


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_search", ROOT / "docs" / "make_search.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_table_of_the_file() -> None:
    table = pd.read_csv(ROOT / "docs" / "search-digits.csv")
    page = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")
    assert script().markdown(table) in page


def test_the_search_is_at_least_as_good_as_the_best_cell_of_the_plane() -> None:
    """As that cell is committed; run again on the same seeds, the two cannot be told apart."""
    table = pd.read_csv(ROOT / "docs" / "search-digits.csv")
    assert (table["bits"] <= script().BUDGET).all()
    seeds = table.groupby(["found by", "setting"], sort=False)["accuracy"].apply(list)
    found, plane = seeds["search, rank 1"].iloc[0], seeds["plane of sbc-matrix"]
    committed = 1 - script().best_cells()["error"].min()
    assert len(plane) == script().CELLS and len(found) == script().SEEDS
    assert fmean(found) >= committed
    assert fmean(found) >= max(map(fmean, plane)) or tied(found, max(plane, key=fmean))


@pytest.mark.slow
def test_the_page_counts_the_trials() -> None:
    trials = pd.read_csv(ROOT / "docs" / "search-trials.csv")
    page = " ".join((ROOT / "docs" / "search.md").read_text(encoding="utf-8").split())
    why = trials["why"].fillna("")
    counts, complete = trials["method"].value_counts(), trials["state"].eq("complete")
    assert counts.nunique() == 1
    each = f"Each of the {len(counts)} methods has {counts.iloc[0]} trials, {len(trials)} in all:"
    behind, unscored, diverged = (
        int(why.str.contains(word).sum()) for word in ("behind others", "no evaluation", "NaN")
    )
    assert f"{each} {complete.sum()} ran to their end, {behind} were stopped because" in page
    too_long = int(why.eq(TOO_LONG).sum())
    assert f"{too_long} had a single message larger than the budget" in page
    assert f"{unscored} had no evaluation within it, and {diverged} diverged" in page
    assert too_few(trials, [*trials["method"].unique()])
    assert trials.loc[complete, "method"].value_counts().max() < FEWEST
    assert "because no method has 20 finished trials" in page and FEWEST == 20

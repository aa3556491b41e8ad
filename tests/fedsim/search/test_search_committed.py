"""The committed search of digits: its page says what its file holds."""

import importlib.util
from types import ModuleType

import pandas as pd

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
    table = pd.read_csv(ROOT / "docs" / "search-digits.csv")
    assert (table["bits"] <= script().BUDGET).all()
    mean = table.groupby(["found by", "setting"])["accuracy"].mean()
    found, plane = mean["search, rank 1"].iloc[0], mean["plane of sbc-matrix"]
    assert len(plane) == script().CELLS and found >= plane.max()

"""READMEs' tables are what the results give, to the letter: ``experiments/common/readme.py``."""

import re
from pathlib import Path

import pytest

from experiments.common import readme
from tests.support.markdown import ROOT

PAGES = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in readme.pages()]
WRITTEN = [
    pytest.param(page, id=str(page.relative_to(ROOT)))
    for page in sorted(ROOT.glob("experiments/*/results/**/*.md"))
]
BY_HAND = {
    "| claim | here | verdict |",
    "| experiment | published | trained here | what came out |",
    "| task | network, optimizer | iterations | scored on | one class always | none |",
}
"""Headings of tables that say what was set up, or whether a claim holds."""


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_those_of_the_results(page: Path) -> None:
    """Else: python -m experiments.common.readme, and look at what it changed."""
    assert readme.written(page) == page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", WRITTEN)
def test_the_tables_beside_the_results_are_the_same(page: Path) -> None:
    assert readme.reprinted(page) == page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_table_of_numbers_is_marked(page: Path) -> None:
    rest = readme._MARKED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^(\|.*)\n\| ?-", rest, re.MULTILINE)
    assert set(headings) <= BY_HAND


def test_there_are_tables_of_every_experiment() -> None:
    counts = {page.parent.name: len(readme.marked(page.read_text())) for page in readme.pages()}
    assert len(counts) >= 14 and min(counts.values()) >= 1 and sum(counts.values()) >= 36


def test_a_name_that_is_no_table_s_is_told(tmp_path: Path) -> None:
    page = tmp_path / "sbc-table1" / "README.md"
    page.parent.mkdir()
    page.write_text("<!-- table: mesages -->\n<!-- end -->\n")
    with pytest.raises(ValueError, match="mesages is not a table of sbc-table1: theory, messages"):
        readme.written(page)


@pytest.mark.parametrize("text", ["<!-- table: theory -->\n| 1 |\n", "| 1 |\n<!-- end -->\n"])
def test_a_marker_without_its_other_is_told(tmp_path: Path, text: str) -> None:
    page = tmp_path / "sbc-table1" / "README.md"
    page.parent.mkdir()
    page.write_text(text)
    with pytest.raises(ValueError, match="lacks its end, or its beginning"):
        readme.written(page)

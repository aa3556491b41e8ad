"""The table of mutants is that of its files, and no survivor lacks an explanation."""

from tests.mutants.scores import PAGE, SURVIVORS, counts, page, rows
from tests.support.markdown import ROOT

ROWS = rows(SURVIVORS)


def test_the_table_is_that_of_the_files() -> None:
    assert page(counts(), ROWS) == PAGE.read_text(encoding="utf-8"), "run: make mutants"
    assert sum(counts().values()) >= 774


def test_every_survivor_is_explained() -> None:
    assert {row["ended"] for row in ROWS} <= {"timeout", "survived"}
    assert not [row for row in ROWS if (row["ended"] == "survived") != bool(row["explanation"])]


def test_what_is_broken_is_there() -> None:
    assert all((ROOT / row["file"]).exists() for row in ROWS)

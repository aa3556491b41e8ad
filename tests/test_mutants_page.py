"""The table of mutants is that of its file, and no survivor stands without an explanation."""

from tests.mutants.scores import PAGE, SAMPLE, page, rows
from tests.support.markdown import ROOT

ROWS = rows(SAMPLE)


def test_the_table_is_that_of_the_file() -> None:
    assert page(ROWS) == PAGE.read_text(encoding="utf-8"), "run: make mutants"
    assert len(ROWS) >= 774


def test_every_survivor_is_explained() -> None:
    assert {row["ended"] for row in ROWS} <= {"killed", "timeout", "survived"}
    silent = [row for row in ROWS if (row["ended"] == "survived") != bool(row["explanation"])]
    assert not silent


def test_what_is_broken_is_there() -> None:
    assert all((ROOT / row["file"]).exists() for row in ROWS)

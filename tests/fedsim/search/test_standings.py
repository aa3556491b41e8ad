"""The candidates of a search while it goes on: their order, their table, and where it is drawn."""

from io import StringIO
from math import inf
from pathlib import Path

import pytest
from rich.console import Console

from fedsim.commands.cli import main
from fedsim.search.goal import Goal
from fedsim.search.standings import MAX_CANDIDATES, Standings
from tests.support.madesearch import curve

BUDGET = Goal(True, "accuracy", budget=1000.0)


def table(standings: Standings) -> list[list[str]]:
    """The lines as a terminal without colours has it, the blanks between its columns cut."""
    console = Console(width=120, file=StringIO())
    console.print(standings.shown())
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    return [of for of in cells if of]


def test_candidates_stand_by_what_they_have_come_to() -> None:
    """A trial that runs stands where its last evaluation within the budget is; one that ended early
    stands behind, however good."""
    standings = Standings(BUDGET, lambda: 75.0)
    standings.end("a", "sbc, n = 1", curve((500, 0.75)))
    standings.begin("b", "stc, n = 2")
    standings.end("c", "cnat, n = 3", curve((100, 0.99)), "behind others at equal bits", False)
    standings.begin("d", "raw, n = 4")
    for bits, metric, loss in ((200, 0.5, 1.25), (300, float("nan"), 0.1), (400, 0.875, 0.5)):
        standings.round("b", {"metric": metric, "spent": bits, "loss": loss})
    title, headings, _, *rows = table(standings)
    said = "best accuracy within 1 kbit per client upstream: 4 tried, 2 running · 75.0 s left"
    assert title == [said]
    assert headings == ["setting", "stage", "accuracy", "loss", "bits"]
    assert rows == [
        ["1", "stc, n = 2", "running", "0.8750", "0.5", "400 bit"],
        ["2", "sbc, n = 1", "done", "0.7500", "500 bit"],
        ["3", "raw, n = 4", "running"],
        ["4", "cnat, n = 3", "behind others at equal bits", "0.9900", "100 bit"],
    ]
    standings.final("a", 3, 6)
    assert table(standings)[4] == ["2", "sbc, n = 1", "finals: 3 of 6 runs", "0.7500", "500 bit"]


def test_the_table_has_the_best_alone_and_no_time_where_there_is_no_limit() -> None:
    standings = Standings(BUDGET, lambda: inf)
    for place in range(MAX_CANDIDATES + 5):
        standings.end(str(place), f"n = {place}", curve((500, place / 100)))
    title, _, _, *rows = table(standings)
    assert (
        len(rows) == MAX_CANDIDATES
        and rows[0][1] == f"n = {MAX_CANDIDATES + 4}"
        and "left" not in title[0]
    )


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [False, True])
def test_the_candidates_are_drawn_where_they_can_be_seen(
    terminal: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a file there are lines alone, one for each trial and no marks of a terminal."""
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    given = "search --iterations 10 --clients 2 --methods sbc --trials 2 --seeds 1 --budget 50kbit"
    assert main([*given.split(), "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().err
    assert ("tried, 0 running" in told, "\x1b[" in told) == (terminal, terminal)
    assert told.count("trial 0: sbc") == told.count("trial 1: sbc") == 1

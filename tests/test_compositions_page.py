"""The table of compositions is what comes out when they are run."""

import csv
import runpy
from pathlib import Path
from typing import Any

import pytest
from flwr.client import mod as legacy
from flwr.clientapp import mod
from flwr.serverapp import strategy

DOCS = Path(__file__).parent.parent / "docs"
AGAIN = "run: PYTHONPATH=. python docs/make_compositions.py"


def made() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_compositions.py"))


def written() -> list[tuple[str, ...]]:
    with (DOCS / "compositions.csv").open(encoding="utf-8") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def test_every_strategy_and_mod_of_flower_was_tried() -> None:
    tried = {row[0] for row in written()}
    names = {*strategy.__all__} - {"Result", "Strategy"} | {*mod.__all__}
    names |= {*legacy.__all__} - {"make_ffn"}
    told = {word for row in written() for word in row[1].replace("[", " ").split()}
    assert not [n for n in names if n not in tried and not any(n in word for word in told)]


def test_nothing_is_wrong() -> None:
    assert {row[2] for row in written()} == {"right", "refused", "fails", "idle", "longer"}


@pytest.mark.proof
def test_what_is_written_is_what_comes_out() -> None:
    assert written() == made()["rows"](), AGAIN

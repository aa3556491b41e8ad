"""The page of pairs is what the code lets in and refuses; a new refusal fails here."""

import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent / "docs"
QUICK = 15
"""Every so manyth pair is looked at in the quick suite."""


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """The names of ``docs/make_pairs.py``."""
    return runpy.run_path(str(DOCS / "make_pairs.py"))


def test_the_page_has_the_table(made: dict[str, Any]) -> None:
    assert made["page"](made["read"]()) == (DOCS / "pairs.md").read_text(encoding="utf-8"), (
        "run: PYTHONPATH=. python docs/make_pairs.py --page"
    )
    every = [(a, f) for a in made["ALGORITHMS"] for f in made["FEATURES"]]
    assert [(pair.algorithm, pair.feature) for pair in made["read"]()] == every


@pytest.mark.parametrize("part", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2))])
def test_settings_are_refused_as_the_table_says(
    made: dict[str, Any], part: int, tmp_path: Path
) -> None:
    """Of each pair whether it is let in; the text of a refusal is not compared."""
    for pair in made["read"]()[part::QUICK] if part == 0 else made["read"]()[part - 1 :: 2]:
        why = made["refusal"](pair.algorithm, pair.feature, tmp_path, train=False)
        assert bool(why) == bool(pair.refusal), pair


@pytest.mark.proof
def test_every_pair_that_is_let_in_trains(made: dict[str, Any]) -> None:
    tried = made["pairs"]()
    assert [bool(p.refusal) for p in tried] == [bool(p.refusal) for p in made["read"]()]

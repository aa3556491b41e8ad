"""What the page of the grammar says fedsim reads is what fedsim reads."""

from pathlib import Path

import pytest

from compressors import parse, text

PAGE = Path(__file__).parent.parent / "docs" / "grammar.md"
LINES = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
EXAMPLES = [
    tuple(part.split("`")[1] for part in line.replace("\\|", "\0").split("|")[1:3])
    for line in LINES
]


def test_there_are_ten() -> None:
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize(("typed", "read"), EXAMPLES)
def test_a_worked_example(typed: str, read: str) -> None:
    assert text(parse(typed.replace("\0", "|"))) == read.replace("\0", "|")

"""Twenty questions have their answers on the pages that are named."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = Path(__file__).with_name("questions.md").read_text(encoding="utf-8").splitlines()
ROWS = [line.replace("\\|", "\0").split("|")[1:4] for line in LINES if line.startswith("| ")][1:]
QUESTIONS = [
    tuple(part.strip().replace("\0", "|") for part in row)
    for row in ROWS
    if not row[0].startswith(" ---")
]


def test_there_are_twenty() -> None:
    assert len(QUESTIONS) == 20


@pytest.mark.parametrize(("question", "page", "words"), QUESTIONS)
def test_the_page_answers(question: str, page: str, words: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\|", "|")
    assert words in " ".join(text.split()), question

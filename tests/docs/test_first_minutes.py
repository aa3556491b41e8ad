"""The table of README's commands and their seconds: of commands that README has, in its order."""

import csv
import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_has_the_commands_of_the_readme() -> None:
    made = runpy.run_path(str(DOCS / "make_first_minutes.py"))
    with (DOCS / "first-minutes.csv").open(encoding="utf-8") as file:
        commands = [row["command"] for row in csv.DictReader(file)]
    assert commands == [line for line in made["typed"]() if line in commands]

"""The table of framing is what is computed."""

import csv
import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
AGAIN = "run: PYTHONPATH=. python docs/make_framing.py"


def test_the_table_is_what_is_computed() -> None:
    made = runpy.run_path(str(DOCS / "make_framing.py"))
    with (DOCS / "framing.csv").open(encoding="utf-8") as file:
        written = [tuple(row) for row in csv.reader(file)]
    assert written == [made["HEAD"], *made["rows"]()], AGAIN

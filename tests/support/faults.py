"""How often tests try a fault: what they tell stands in ``docs/faults.csv``, and on ``trust.md``.

    FEDSIM_FAULTS=1 python -m pytest -n 0 -m '' tests/fedsim/runs/test_at_nodes.py

writes what the tests of that file tried; without the variable they look whether it is there.
``PYTHONPATH=. python docs/make_trust.py --page`` then makes the page.
"""

import csv
import os
from pathlib import Path

FILE = Path(__file__).parents[2] / "docs" / "faults.csv"


def told(fault: str, part: str, tried: int, lost: str = "nothing") -> None:
    """Of a test that has come to its end: what it tried.

    Args:
        fault: of the page's table.
        part: which of the fault's tests it is, or which of its settings.
        tried: how often the fault came.
        lost: what differs from an undisturbed run.
    """
    with FILE.open(newline="", encoding="utf-8") as file:
        rows = {(row["fault"], row["part"]): row for row in csv.DictReader(file)}
    now = {"fault": fault, "part": part, "tried": str(tried), "lost": lost}
    if "FEDSIM_FAULTS" not in os.environ:
        assert rows.get((fault, part)) == now, f"run this test with FEDSIM_FAULTS=1: {now}"
        return
    rows[fault, part] = now
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, now.keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))

"""Runs the quickstart with and without compression, and writes what Flower counted.

``PYTHONPATH=. python docs/make_quickstart.py`` deploys both apps of ``examples`` here (two
SuperNodes, some minutes) and writes ``docs/quickstart.csv`` and the table in ``docs/flower.md``.
"""

import csv
import re
import tempfile
from pathlib import Path

from fedsim.engines.deploy import Deployment

EXAMPLES = Path(__file__).parents[1] / "examples"
CSV, PAGE = Path(__file__).with_name("quickstart.csv"), Path(__file__).with_name("flower.md")
APPS = {"FedAvg": "quickstart", "FedAvg, `sbc(0.05)` both ways": "quickstart-sbc"}
HEAD = ("app", "bytes up", "bytes down", "accuracy")
_BETWEEN = re.compile(r"(<!-- quickstart -->\n).*?(<!-- end of quickstart -->)", re.DOTALL)


def measured(names: dict[str, str]) -> list[tuple[str, ...]]:
    """A row per app: Flower's counters, and the accuracy that the app tells."""
    scores: list[str] = []
    with tempfile.TemporaryDirectory() as folder, Deployment(2, Path(folder)) as federation:
        for name in names.values():
            federation.run_app(EXAMPLES / name, lambda line: scores.append(line.split()[-1]))
        counted = federation.traffic()
    rows = zip(names, counted, scores, strict=True)
    return [(title, f"{c['up']:,}", f"{c['down']:,}", score) for title, c, score in rows]


def page() -> str:
    """The page with the table of the CSV in it."""
    with CSV.open(encoding="utf-8") as file:
        lines = [f"| {' | '.join(row)} |" for row in csv.reader(file)]
    table = "\n".join([lines[0], "| --- | --: | --: | --: |", *lines[1:]])
    text = PAGE.read_text(encoding="utf-8")
    return _BETWEEN.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


if __name__ == "__main__":
    rows = measured(APPS)
    with CSV.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *rows])
    PAGE.write_text(page(), encoding="utf-8")

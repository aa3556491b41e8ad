"""Types README's commands in a fresh clone and writes how long each takes.

``PYTHONPATH=. python docs/make_first_minutes.py`` clones what is committed, with a new environment
and a new home (nothing is compiled or cached), and writes ``docs/first-minutes.csv`` and the table
in ``docs/first-steps.md``. It takes a quarter of an hour.
"""

import csv
import os
import re
import shlex
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from tests.support.markdown import ROOT, blocks

CSV = Path(__file__).with_name("first-minutes.csv")
PAGE = Path(__file__).with_name("first-steps.md")
_BETWEEN = re.compile(r"(<!-- minutes -->\n).*?(<!-- end of minutes -->)", re.DOTALL)


def typed() -> list[str]:
    """README's commands in order; the installation, which `make demo` begins with, by itself."""
    shell = [block for block in blocks(ROOT / "README.md") if block.language == "sh"]
    return ["make install", *(line for block in shell for line in block.lines)]


def timed(lines: list[str], folder: Path) -> list[float]:
    """The seconds of each line, typed one after the other in one shell in a clone in ``folder``."""
    clone, times = folder / "clone", folder / "times"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    stamp = f"date +%s.%N >> {times}"
    steps = [f"echo {shlex.quote('$ ' + line)}\n{line}\n{stamp}" for line in lines]
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    python = str(Path(sys.base_prefix) / "bin" / "python3")
    given = {"PATH": os.defpath, "HOME": str(folder), "PYTHON": python, **pip}
    subprocess.run(["sh", "-e", "-c", "\n".join([stamp, *steps])], cwd=clone, env=given, check=True)
    stamps = [float(line) for line in times.read_text().split()]
    return [after - before for before, after in pairwise(stamps)]


def page() -> str:
    """The page with the table of the CSV in it."""
    with CSV.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    table = ["| command | seconds |", "| --- | --: |"]
    table += [f"| `{row['command']}` | {row['seconds']} |" for row in rows]
    text = PAGE.read_text(encoding="utf-8")
    return _BETWEEN.sub(lambda match: "\n".join([match[1] + table[0], *table[1:], match[2]]), text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="fedsim-") as made:
        seconds = timed(typed(), Path(made))
    with CSV.open("w", encoding="utf-8", newline="") as file:
        rows = [[line, f"{took:.0f}"] for line, took in zip(typed(), seconds, strict=True)]
        csv.writer(file, lineterminator="\n").writerows([["command", "seconds"], *rows])
    PAGE.write_text(page(), encoding="utf-8")

"""Breaks one line at a time and says which tests see it: `tests/mutants/run.py --out FILE.csv`.

Every row of ``mutants.json`` is a mistake that somebody could make: a text that stands once in a
file, what stands there in its place, and what a user would see. The packages and the tests are
copied, the mistake is made in the copy, and the quick tests of that room run until one fails. A
row of the CSV file says ``killed`` and by which test, or ``alive``. Rows that are there already
are not run again. The last line is the score of the whole file.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("mutants.json")
COPIED = ("compressors", "strategies", "fedsim", "experiments", "tests", "docs", "benchmarks")
FILES = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile")
COLUMNS = ("id", "file", "ended", "by", "seconds")
SECONDS = 1800

_RUNS = ("tests/fedsim/federation", "tests/fedsim/engines", "tests/fedsim/runs")
TESTS = {
    "fedsim/runs/verify": ("tests/fedsim/runs/test_verify_run.py",),
    "fedsim/federation/digests": ("tests/fedsim/runs/test_verify_run.py", *_RUNS),
    "fedsim/network": ("tests/fedsim/network", "tests/fedsim/show", *_RUNS),
    "fedsim/settings/controllers": ("tests/fedsim/controllers", *_RUNS),
    "fedsim/federation": ("tests/fedsim/controllers", *_RUNS, "tests/fedsim/results"),
    "fedsim/search": ("tests/fedsim/search",),
    "fedsim/settings": ("tests/fedsim/settings", "tests/fedsim/results"),
    "fedsim/show": ("tests/fedsim/show", "tests/fedsim/commands"),
    "fedsim/results": ("tests/fedsim/results", "tests/fedsim/show"),
    "strategies": ("tests/strategies", *_RUNS),
    "compressors": ("tests/compressors", "tests/fedsim/federation"),
    "experiments/like-for-like/own": ("tests/experiments/own",),
}
"""By the beginning of a file's path: where the tests of its room lie, the nearest first."""


def tests_of(file: str) -> tuple[str, ...]:
    return next(tests for room, tests in TESTS.items() if file.startswith(room))


def copied(tree: Path) -> None:
    """The packages and the tests, with what numba has compiled."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, symlinks=True)
    for name in FILES:
        shutil.copy2(ROOT / name, tree / name)


def ended(tree: Path, file: str) -> tuple[str, str]:
    """Whether a test sees the mistake, and which test."""
    environment = os.environ | {"PYTHONPATH": str(tree), "CI": "true"}
    command = [
        sys.executable, "-m", "pytest", "-n", "0", "-x", "-p", "no:cacheprovider", "--tb", "no",
        "-m", "not slow and not proof", *tests_of(file),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return "killed", f"the tests take more than {SECONDS} s"
    if done.returncode == 0:
        return "alive", ""
    failed = [line for line in done.stdout.splitlines() if line[:6] in ("FAILED", "ERROR ")]
    return "killed", failed[0].split(" - ")[0].split(" ", 1)[1] if failed else done.stdout[-200:]


def score(file: Path) -> str:
    """How many of the mistakes in a CSV file were seen, and which were not, in words."""
    with file.open() as lines:
        rows = [*csv.DictReader(lines)]
    alive = [row["id"] for row in rows if row["ended"] != "killed"]
    seen = len(rows) - len(alive)
    missed = f"; not seen: {', '.join(alive)}" if alive else ""
    return f"{seen} of {len(rows)} mistakes are seen ({seen / max(1, len(rows)):.1%}){missed}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the CSV file")
    parser.add_argument("--part", default="1/1", help="such as 1/2: every second, from the first")
    parser.add_argument("--only", default="", help="the beginning of ids")
    given = parser.parse_args()
    first, parts = map(int, given.part.split("/"))
    rows = json.loads(LISTED.read_text())[first - 1 :: parts]
    known = set()
    if given.out.exists():
        with given.out.open() as file:
            known = {row["id"] for row in csv.DictReader(file)}
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        tree = Path(folder)
        copied(tree)
        for row in rows:
            if row["id"] in known or not row["id"].startswith(given.only):
                continue
            path = tree / row["file"]
            before, times = path.read_text(), path.stat()
            assert before.count(row["old"]) == 1, row
            path.write_text(before.replace(row["old"], row["new"]))
            began = os.times().elapsed
            how, by = ended(tree, row["file"])
            path.write_text(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            new = not given.out.exists()
            with given.out.open("a", newline="") as file:
                writer = csv.writer(file)
                if new:
                    writer.writerow(COLUMNS)
                seconds = round(os.times().elapsed - began)
                writer.writerow([row["id"], row["file"], how, by, seconds])
            print(f"{row['id']}: {how} {by}", flush=True)
    if given.out.exists():
        print(score(given.out))


if __name__ == "__main__":
    main()

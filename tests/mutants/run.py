"""Breaks one thing at a time and says which breaks no quick test sees: ``make mutants``.

mutmut's operators make the mutants, coverage.py says which tests touch a line, and a mutant runs
those tests in a fork (``forked``). The sample of each room is what a hash ranks first, so that it
stays as it is while the code does. What was run is not run again: the command goes on where it
was stopped. At the end ``survivors.csv``, ``counts.csv`` and the table of CONTRIBUTING.md are
written, where rooms that were not run keep their rows and survivors their explanations; one without
any fails ``tests/test_mutants_page.py``.
"""

import argparse
import csv
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mutants import touched
from tests.mutants.drawn import ROOMS, ROOT, Mutant, drawn
from tests.mutants.forked import Warm, Work, cold
from tests.mutants.scores import finish, key, rows, table, write

COLUMNS = ("room", "file", "function", "mistake", "ended", "by")
EACH, SECONDS = 50, 15.0
"""Mutants of each room, and seconds of tests for each, as they were when they were recorded."""


def apart(work: Callable[[], object]) -> None:
    """Runs something in a process of its own, so that this one imports nothing of fedsim."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.waitpid(child, 0)


def run(works: list[Work], folder: Path) -> None:
    """Runs mutants; each ends as a row of ``folder/rows.csv``."""
    file, began = folder / "rows.csv", time.monotonic()

    def told(mutant: Mutant, ended: str, by: str) -> None:
        values = (mutant.room, *mutant.key, ended, by)
        with file.open("a", encoding="utf-8", newline="") as lines:
            csv.writer(lines, lineterminator="\n").writerow(values)
        print(f"{time.monotonic() - began:.0f} s:", *values[1:], flush=True)

    for mutant, tests, _ in works:
        if not tests:
            told(mutant, "survived", "no test is here")
    works = [work for work in works if work[1]]
    files = sorted({test.split("::")[0] for _, tests, _ in works for test in tests})
    if files:
        options = [*touched.OPTIONS, "--basetemp", str(folder / "tmp")]
        warm = Warm(works, folder / "tmp", told)
        apart(lambda: pytest.main([*options, *files], [warm]))
        done = {key(row) for row in rows(file)}
        left = [work for work in works if work[0].key not in done]
        cold(left, folder / "tmp", told, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every mutant: days")
    parser.add_argument("--each", type=int, help="mutants of each room: prints their table alone")
    parser.add_argument("--rooms", nargs="*", default=[*ROOMS], choices=ROOMS, help="these alone")
    parser.add_argument("--again", action="store_true", help="runs survivors once more")
    parser.add_argument("--record", nargs="*", help="records new tests for --again")
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutants", help="what is kept")
    given = parser.parse_args()
    folder = given.folder.resolve()
    file = folder / "rows.csv"
    if given.record or not (folder / "seconds.json").exists():
        apart(lambda: touched.record(folder, given.record or touched.TESTS))
    if not file.exists():
        file.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    if given.again:
        kept = [row for row in rows(file) if row["ended"] == "killed"]
        write(file, kept, COLUMNS)
    sizes = dict.fromkeys(ROOMS, None if given.all else given.each or EACH)
    sample = [mutant for room in given.rooms for mutant in drawn(room, sizes[room])]
    known, seen = {key(row) for row in rows(file)}, touched.Touched(folder)
    run([(m, *seen.tests(m, SECONDS)) for m in sample if m.key not in known], folder)
    names = {mutant.key for mutant in sample}
    found = [row for row in rows(file) if key(row) in names]
    if given.all or given.each or len(found) != len(sample):
        alive = [row for row in found if row["ended"] != "killed"]
        print(table(Counter(row["room"] for row in found), alive))
    else:
        finish(found)


if __name__ == "__main__":
    main()

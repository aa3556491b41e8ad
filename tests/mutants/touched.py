"""Which quick tests touch which lines, recorded once by coverage.py: ``record``."""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from time import process_time

import coverage
import pytest

from tests.mutants.drawn import Mutant

ROOT = Path(__file__).parents[2]
TESTS = (
    *(f"tests/fedsim/{room}" for room in
      ("settings", "controllers", "network", "results", "search", "federation", "runs",
       "commands", "engines", "deploy", "samplers", "show", "tasks", "measure")),
    "tests/fedsim/test_docstrings.py", "tests/strategies", "tests/compressors/whole",
    "tests/compressors/test_bits.py",
    "tests/compressors/test_contract.py", "tests/compressors/test_golden.py",
    "tests/compressors/test_hostile.py",
)  # fmt: skip
"""The quick tests of the rooms that are broken, the cheapest rooms first."""

MARKS = "not slow and not proof and not processes"
"""Tests that start other programs are left out: those read the file, which is as it was."""

OPTIONS = ("-n", "0", "-p", "no:cacheprovider", "--tb", "no", "--no-header", "-m", MARKS)
SOURCES = ["fedsim", "strategies", "compressors/whole"]


class Recorder:
    """A plugin of pytest: lines that run while a test does are that test's."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.measured.switch_context(item.nodeid)
        begun = process_time()  # and not the clock's: the machine does other things too
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] += process_time() - begun
            self.measured.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


def record(folder: Path, tests: Sequence[str]) -> None:
    """Runs tests once. Which lines each touches goes to ``folder``, with the seconds it took."""
    folder.mkdir(parents=True, exist_ok=True)
    file, lines = folder / "seconds.json", folder / "lines"
    measured = coverage.Coverage(lines, config_file=False, source=SOURCES)
    known = {}
    if file.exists():
        measured.load()
        known = json.loads(file.read_text())
    before, recorder = {*sys.modules}, Recorder(measured)
    os.chdir(ROOT)
    measured.start()
    pytest.main([*OPTIONS, "--basetemp", str(folder / "tmp"), *tests], [recorder])
    measured.stop()
    measured.save()
    passed = {test: s for test, s in recorder.seconds.items() if test not in recorder.failed}
    file.write_text(json.dumps(known | passed, indent=0))
    if not known:
        tops = {"tests", "experiments", "conftest", "__main__", *(x.split("/")[0] for x in SOURCES)}
        new = [name for name in sys.modules if name not in before]  # tests would import what breaks
        names = [n for n in new if n.split(".")[0] not in tops and not n.startswith("test_")]
        (folder / "modules.json").write_text(json.dumps(names, indent=0))


class Touched:
    """What was recorded."""

    def __init__(self, folder: Path) -> None:
        self.data = coverage.CoverageData(str(folder / "lines"))
        self.data.read()
        self.seconds: dict[str, float] = json.loads((folder / "seconds.json").read_text())
        self.lines = cache(lambda file: self.data.contexts_by_lineno(str(ROOT / file)))
        self.of_file: dict[str, list[str]] = defaultdict(list)
        for test in self.seconds:
            self.of_file[test.split("::")[0]].append(test)

    def tests(self, mutant: Mutant, most: float) -> tuple[list[str], float]:
        """The tests of a mutant and their seconds, up to ``most``.

        The tests that touch its lines come first: those of its file by name, those of its room,
        and the fastest; then what stands beside them, since a test may look at what another one
        has made. What runs when it is imported belongs to all tests that touch the file.
        """
        by_line = self.lines(mutant.file)
        touching = {test for line in mutant.lines for test in by_line.get(line, ())}
        if mutant.imported or touching == {""}:
            touching = {test for tests in by_line.values() for test in tests} - {""}
            room = f"/{Path(mutant.file).parent.name}/"
            touching = touching or {test for test in self.seconds if room in test}
        near = self._in_order(touching, Path(mutant.file))
        files = {test.split("::")[0] for test in near}
        beside = {test for file in files for test in self.of_file[file]}.difference(near)
        module = mutant.file.removesuffix(".py").replace("/", ".")
        near.sort(key=lambda test: module not in test)  # the examples of its docstrings
        chosen, total = [], 0.0
        for test in near + self._in_order(beside, Path(mutant.file)):
            total += self.seconds[test]
            if chosen and total > most:
                break
            chosen.append(test)
        return chosen, total

    def _in_order(self, tests: Iterable[str], broken: Path) -> list[str]:
        files: dict[str, list[str]] = defaultdict(list)
        for test in sorted(self.seconds.keys() & tests, key=self.seconds.__getitem__):
            files[test.split("::")[0]].append(test)

        def distance(file: str) -> tuple[bool, bool, float]:
            mean = sum(map(self.seconds.__getitem__, files[file])) / len(files[file])
            return broken.stem not in file, f"/{broken.parent.name}/" not in file, mean

        return [test for file in sorted(files, key=distance) for test in files[file]]

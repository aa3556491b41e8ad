"""The wheel outside the checkout: under other interpreters, and with the lowest versions allowed.

    python -m tests.support.reach --python python3.12 --python python3.13
    python -m tests.support.reach --lowest

builds the wheel, installs it into an environment of its own (torch with CUDA's libraries: 7 GB,
removed at the end), and does from empty folders what a user does first. ``--lowest`` installs the
lowest version of every library that ``pyproject.toml`` allows, and runs some of the tests too.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tests.support.markdown import ROOT

EXTRAS = ("report", "sim", "search", "ray", "vision", "tensorboard")
"""Optional libraries of ``pyproject.toml`` whose lowest versions are installed as well."""

TOOLS = ("hypothesis", "pytest", "pytest-rerunfailures", "pytest-xdist")
"""What the tests need, of the extra ``dev``."""

SAMPLE = (
    "tests/compressors/test_golden.py",
    "tests/compressors/test_doctest.py",
    "tests/compressors/device/test_device_messages.py",
    "tests/strategies/test_compressed.py",
    "tests/strategies/test_delayed.py",
    "tests/strategies/test_algorithms.py",
    "tests/fedsim/runs/test_run.py",
    "tests/fedsim/runs/test_resume.py",
    "tests/fedsim/runs/test_sweeps.py",
    "tests/fedsim/results",
    "tests/fedsim/search",
    "tests/fedsim/show/test_tables.py",
    "tests/fedsim/tasks/test_partition.py",
    "tests/fedsim/tasks/test_vision_tasks.py",
)
"""Tests that are run with the lowest versions: those of them that are not slow."""

NEEDS = 14 << 30
"""Bytes that an environment takes, with what is downloaded for it."""

_SWEEP = ["sweep", "--temporal", "10", "--gradient", "0.01", "--iterations", "100"]
_DEPLOY = ["deploy", "--clients", "2", "--iterations", "4", "--temporal", "2", "--out", "deployed"]
_LOAD = """
import pathlib, sys
import fedsim

assert pathlib.Path(fedsim.__file__).is_relative_to(sys.prefix), fedsim.__file__
for folder, runs, rounds in zip(sys.argv[1:], (2, 1), (110, 2), strict=True):
    found = fedsim.load(folder)
    assert (len(found.runs), len(found.rounds)) == (runs, rounds), found
"""


def find(python: str) -> str | None:
    """The interpreter of that name or path: on the path, or one of pyenv's; None without one."""
    places = [shutil.which(python)]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
        places += map(str, sorted(Path(root).glob(f"versions/*/bin/{python}")))
    for place in filter(None, places):  # pyenv's shim of a version that is not chosen says so
        if not subprocess.run([place, "--version"], capture_output=True).returncode:
            return place
    return None


def bounds() -> dict[str, str]:
    """Library -> the lowest version that ``pyproject.toml`` allows; empty where it names none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
    asked += [line for line in extras["dev"] if line.partition(">")[0] in TOOLS]
    asked = [line for line in asked if not line.startswith("fedsim-lab[")]
    spelled = re.compile(r"([\w-]+)(?:\[[\w,-]+\])?(?:>=([^,]+)(?:,<.+)?)?")
    split = map(spelled.fullmatch, asked)
    return {found[1]: found[2] or "" for found in split if found}


class Place:
    """An environment with the wheel, and empty folders beside it; ``folder`` is made.

    Downloads are kept in ``cache``, which environments share; files are linked from there.
    """

    def __init__(self, folder: Path, interpreter: str, cache: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.python = folder, str(folder / "env" / "bin" / "python")
        left_out = ("PYTHONPATH", "VIRTUAL_ENV")
        own = {"UV_CACHE_DIR": str(cache), "NUMBA_CACHE_DIR": str(folder / "numba")}
        self.environment = {k: v for k, v in os.environ.items() if k not in left_out} | own
        self._uv("venv", "--python", interpreter, str(folder / "env"))
        self._uv("build", "--wheel", "--out-dir", str(folder), str(ROOT))
        (self.wheel,) = map(str, folder.glob("*.whl"))

    def _uv(self, *arguments: str) -> None:  # Flower brings uv along
        self.call([sys.executable, "-m", "uv", *arguments], self.folder)

    def install(self, *arguments: str) -> None:
        """Into the environment."""
        self._uv("pip", "install", "--python", self.python, *arguments)

    def call(self, command: Sequence[str], folder: Path) -> str:
        """What a command prints; where it fails, an ``AssertionError`` with all of it."""
        done = subprocess.run(
            command,
            cwd=folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
        return done.stdout

    def use(self) -> None:
        """A sweep, a deployment, and ``fedsim.load`` of both, each from an empty folder."""
        folders = [self.folder / name for name in ("sweep", "deploy", "load")]
        for folder in folders:
            folder.mkdir()
        program = str(Path(self.python).with_name("fedsim"))
        self.call([program, *_SWEEP], folders[0])
        (swept,) = (folders[0] / "fedsim-results").iterdir()
        assert (swept / "report.html").stat().st_size > 100_000
        self.call([program, *_DEPLOY], folders[1])
        deployed = folders[1] / "deployed"
        self.call([self.python, "-c", _LOAD, str(swept), str(deployed)], folders[2])


def use_wheel(folder: Path, interpreter: str, cache: Path) -> None:
    """The wheel with the versions of ``constraints.txt``, under ``interpreter``."""
    place = Place(folder, interpreter, cache)
    place.install("--constraints", str(ROOT / "constraints.txt"), f"{place.wheel}[all]")
    place.use()


def use_lowest(folder: Path, interpreter: str, cache: Path) -> None:
    """The wheel and ``SAMPLE`` with the lowest versions, which are the bounds exactly."""
    place, lowest = Place(folder, interpreter, cache), bounds()
    place.install(
        "--resolution",
        "lowest-direct",
        "-r",
        str(ROOT / "pyproject.toml"),
        *(f"--extra={extra}" for extra in EXTRAS),
        *(f"{tool}>={lowest[tool]}" for tool in TOOLS),
    )
    place.install("--no-deps", place.wheel)
    asked = f"from importlib.metadata import version as v; print(*map(v, {[*lowest]}))"
    installed = place.call([place.python, "-c", asked], place.folder).split()
    other = {
        name: (bound, has)
        for (name, bound), has in zip(lowest.items(), installed, strict=True)
        if not re.fullmatch(rf"{re.escape(bound)}(\.0)*", has)
    }
    assert not other, f"pyproject.toml allows other versions than what is installed: {other}"
    tests = [place.python, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *SAMPLE]
    print(place.call(tests, ROOT).splitlines()[-1])
    place.use()


def main() -> None:
    """A line for each interpreter."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", metavar="NAME", help="such as python3.12")
    parser.add_argument("--lowest", action="store_true", help="with the lowest versions allowed")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reach") as base:
        for name in asked.python or [sys.executable]:
            interpreter, since = find(name), time.monotonic()
            if interpreter is None:
                sys.exit(f"{name} is not there: give an interpreter on the path, or its path")
            folder = Path(base, "used")
            (use_lowest if asked.lowest else use_wheel)(folder, interpreter, Path(base, "cache"))
            shutil.rmtree(folder)
            print(f"{name}: sweep, deployment and load in {time.monotonic() - since:.0f} s")


if __name__ == "__main__":
    main()

"""Without an extra: an app's owner has what is needed, and a command names what it lacks."""

import subprocess
import sys
import tomllib

import pytest

from fedsim.ground.extras import EXTRAS
from tests.support.markdown import ROOT

_CHILD = """
import contextlib, io, sys

class Hidden:  # as if they were not installed
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import fedsim
from compressors import sbc
from strategies import Compressed, client_mod
from fedsim.commands.cli import main

try:
    fedsim.search
except ModuleNotFoundError as error:
    assert "fedsim-lab[" in str(error), error
else:
    assert "optuna" not in sys.argv[1]
for line in sys.argv[2].split(";"):
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = main(line.split())
    print(line, code, err.getvalue().strip(), sep="|")
"""
LACKING = {
    "run": "sim",
    "sweep": "sim",
    "deploy": "sim",
    "search": "search",
    "report x": "report",
    "compare x": "report",
    "verify x": "report",
    "price x --network 4g": "report",
    "experiment x": "sim",
    "show matrix x": "report",
    "completion bash": "completion",
}
"""Command -> the extra that it lacks."""


def called(commands: list[str], hidden: list[str]) -> list[list[str]]:
    """Command, exit code and message of each without these modules; no folder is written."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, ",".join(hidden), ";".join(commands)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [line.split("|") for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_command_names_the_extra_that_it_lacks() -> None:
    absent = sorted(set().union(*EXTRAS.values()) - {"rich"})  # which Flower brings along
    for line, code, message in called([*LACKING, "list methods"], absent):
        if line in LACKING:
            assert (code, f"fedsim-lab[{LACKING[line]}]" in message) == ("2", True), message
        else:
            assert (code, message) == ("0", "")


@pytest.mark.slow
def test_an_engine_names_its_extra() -> None:
    for _, code, message in called(["run --engine ray", "sweep --engine ray --jobs 1"], ["ray"]):
        assert (code, "fedsim-lab[ray]" in message) == ("2", True), message


def test_extras_have_what_their_commands_look_for() -> None:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = written["optional-dependencies"]
    for extra, modules in EXTRAS.items():
        names, waiting = set(), [extra]
        while waiting:
            for line in lists[waiting.pop()]:
                name, _, inner = line.partition("[")
                names.add(line.partition(">")[0])
                waiting += inner.strip("]").split(",") if name == "fedsim-lab" else []
        assert set(modules) <= names, extra

"""Sweeps in processes that kill themselves at given instants, and what is to be left of them."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from tests.support.commands import files
from tests.support.runs import assert_same, parts

# The command line as it is, in a process that kills itself at a given instant.
_WRAPPER = """
import os, signal, sys
from pathlib import Path
from fedsim.runs import checkpoint, progress

where, cell, number = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
book, save_file = progress.Bars.__call__, checkpoint.save_file

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def call(self, name, row):
    book(self, name, row)
    if (where, cell, int(number)) == ("round", name, row["round"]):
        die()

def half(tensors, path):
    save_file(tensors, path)
    if (where, cell) == ("checkpoint", Path(path).parents[1].name):
        folder = Path(path).parents[1]
        if any(folder.glob("checkpoint-*")) == (int(number) > 1):
            whole = Path(path).read_bytes()
            Path(path).write_bytes(whole[: len(whole) // 2])
            die()

progress.Bars.__call__ = call
checkpoint.save_file = half
"""
_MAIN = """
import sys
from fedsim.commands.cli import main
sys.exit(main(sys.argv[1:]))
"""

Instant = tuple[str, str, int]
"""``round``: after that round of a cell; ``checkpoint``: half-way through its first or second."""


@dataclass(frozen=True)
class Sweep:
    """A sweep's command, without ``--out``.

    Attributes:
        arguments: of the command line.
        iterations: of each cell.
        grid: its cells, in the order in which one process runs them.
        before: Python that the process runs first.
    """

    arguments: Sequence[str]
    iterations: int
    grid: Sequence[str]
    before: str = ""

    def run(self, out: Path, *instant: str) -> "subprocess.CompletedProcess[str]":
        """Types the command, in a process that is killed at the instant, if one is given."""
        script = self.before + (_WRAPPER if instant else "") + _MAIN
        command = ["sweep", "--jobs", "1", "--iterations", f"{self.iterations}", *self.arguments]
        return subprocess.run(
            [sys.executable, "-c", script, *instant, *command, "--out", str(out)],
            capture_output=True,
            text=True,
            timeout=900,
        )

    def instants(self, seed: int) -> list[Instant]:
        """Where to kill: one instant a cell, a round of all but one, and inside its checkpoint.

        The one must have rounds enough for a second checkpoint.
        """
        draw = random.Random(seed)
        cells = draw.sample(list(self.grid), len(self.grid))
        inside = cells.pop(draw.randrange(len(cells)))
        found = [("round", cell, draw.randint(1, self._rounds(cell))) for cell in cells]
        found.insert(draw.randrange(len(self.grid)), ("checkpoint", inside, 2))
        return sorted(found, key=lambda instant: self.grid.index(instant[1]))  # each is reached

    def _rounds(self, cell: str) -> int:
        n = int(cell.split("-")[0][1:])
        return -(-self.iterations // n)

    def done(self, out: Path) -> list[str]:
        """The cells that have ended, in order."""
        names = []
        for file in out.glob("cells/*/summary.json"):
            assert json.loads(file.read_text())["status"] == "done"
            names.append(file.parent.name)
        return sorted(names, key=self.grid.index)

    def assert_equal(self, one: Path, other: Path) -> None:
        """Equal tables, weights and messages: bit for bit."""
        for name in ("summary.csv", "summary.parquet"):
            read = pd.read_csv if name.endswith("csv") else pd.read_parquet
            tables = [read(out / name).drop(columns="seconds") for out in (one, other)]
            pd.testing.assert_frame_equal(*tables, check_exact=True)
        for cell in self.grid:
            assert_same(one / "cells" / cell, other / "cells" / cell)

    def run_killed(self, out: Path, instants: Sequence[Instant]) -> None:
        """One sweep, killed at each instant, each time taken up by the same command, to its end."""
        for where, cell, number in instants:
            before = self._written(out)
            ended = self.run(out, where, cell, str(number))
            assert ended.returncode == -9, ended.stderr
            assert self.done(out) == self.grid[: self.grid.index(cell)]  # before it, and not itself
            assert bool(parts(out)) == (where == "checkpoint")
            assert not (out / "summary.csv").exists()
            for name, written in before.items():
                assert files(out / "cells" / name) == written  # not run again, not touched
        before = self._written(out)
        ended = self.run(out)
        assert ended.returncode == 0, ended.stderr
        for name, written in before.items():
            assert files(out / "cells" / name) == written
            assert f"{name}:" not in ended.stderr
        assert not parts(out) and not list(out.rglob("checkpoint-*"))

    def _written(self, out: Path) -> dict[str, dict[str, int]]:
        names = self.done(out) if out.exists() else []
        return {name: files(out / "cells" / name) for name in names}


def killed_once(marker: Path) -> None:
    """Kills this process, the first time that anybody asks."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)  # as an operating system short of memory does


def killed_session(child: "subprocess.Popen[bytes]") -> None:
    """Kills a process that began a session; waits until all that it has started have ended too."""
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    while True:  # the session is empty in the end, or the test hangs
        try:
            os.killpg(child.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)

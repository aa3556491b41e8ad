"""``kill -9`` of a sweep at five seeded instants: nothing is lost, nothing differs."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.fedsim.commands import files
from tests.fedsim.runs import assert_same, parts

pytestmark = pytest.mark.slow

ITERATIONS = 60
GRID = ["n1-p1-s0", "n2-p0.1-s0", "n2-p0.05-s0", "n5-p0.1-s0", "n5-p0.05-s0"]
COMMAND = [
    "sweep", "--jobs", "1", "--temporal", "2,5", "--gradient", "0.1,0.05",
    "--iterations", f"{ITERATIONS}", "--evaluate-every", "4", "--checkpoint-every", "3",
]  # fmt: skip

# The command line as it is, in a process that kills itself at a given instant.
WRAPPER = """
import os, signal, sys
from pathlib import Path
from fedsim import checkpoint, progress
from fedsim.cli import main

where, cell, number, *arguments = sys.argv[1:]
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
sys.exit(main(arguments))
"""


def rounds_of(cell: str) -> int:
    n = int(cell.split("-")[0][1:])
    return -(-ITERATIONS // n)


def instants() -> list[tuple[str, str, int]]:
    """Where to kill: four rounds of four cells, and inside a cell's second checkpoint."""
    draw = random.Random(20)
    cells = draw.sample(GRID, 5)
    inside = cells.pop(draw.randrange(5))
    found = [("round", cell, draw.randint(1, rounds_of(cell))) for cell in cells]
    found.insert(draw.randrange(5), ("checkpoint", inside, 2))
    return sorted(found, key=lambda instant: GRID.index(instant[1]))  # each is then reached


def sweep(out: Path, *instant: str) -> "subprocess.CompletedProcess[str]":
    start = (
        [sys.executable, "-c", WRAPPER, *instant] if instant else [sys.executable, "-m", "fedsim"]
    )
    return subprocess.run(
        [*start, *COMMAND, "--out", str(out)], capture_output=True, text=True, timeout=300
    )


def done(out: Path) -> list[str]:
    """The cells that have ended, in order."""
    names = []
    for file in out.glob("cells/*/summary.json"):
        assert json.loads(file.read_text())["status"] == "done"
        names.append(file.parent.name)
    return sorted(names, key=GRID.index)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    out = tmp_path_factory.mktemp("undisturbed")
    ended = sweep(out)
    assert ended.returncode == 0, ended.stderr
    assert done(out) == GRID
    yield out


def assert_equal_sweeps(one: Path, other: Path) -> None:
    for name in ("summary.csv", "summary.parquet"):
        read = pd.read_csv if name.endswith("csv") else pd.read_parquet
        tables = [read(out / name).drop(columns="seconds") for out in (one, other)]
        pd.testing.assert_frame_equal(*tables, check_exact=True)
    for cell in GRID:
        assert_same(one / "cells" / cell, other / "cells" / cell)


def test_the_instants_are_five_and_one_is_inside_a_checkpoint() -> None:
    found = instants()
    assert len(found) == 5 and len({cell for _, cell, _ in found}) == 5
    assert [where for where, _, _ in found].count("checkpoint") == 1


def test_killed_at_five_instants(undisturbed: Path, tmp_path: Path) -> None:
    """One sweep, killed five times, each time taken up by the same command."""
    out = tmp_path / "killed"
    for where, cell, number in instants():
        before = {name: files(out / "cells" / name) for name in (done(out) if out.exists() else [])}
        ended = sweep(out, where, cell, str(number))
        assert ended.returncode == -9, ended.stderr
        assert done(out) == GRID[: GRID.index(cell)]  # all before it, and not itself
        assert bool(parts(out)) == (where == "checkpoint")
        assert not (out / "summary.csv").exists()
        for name, written in before.items():
            assert files(out / "cells" / name) == written  # not run again, not touched
    before = {name: files(out / "cells" / name) for name in done(out)}
    ended = sweep(out)
    assert ended.returncode == 0, ended.stderr
    for name, written in before.items():
        assert files(out / "cells" / name) == written
        assert f"{name}:" not in ended.stderr
    assert not parts(out) and not list(out.rglob("checkpoint-*"))
    assert_equal_sweeps(undisturbed, out)


def test_the_same_command_after_the_end_runs_nothing(undisturbed: Path) -> None:
    before, table = files(undisturbed / "cells"), (undisturbed / "summary.csv").read_bytes()
    ended = sweep(undisturbed)
    assert ended.returncode == 0 and ended.stderr == ""
    assert files(undisturbed / "cells") == before
    assert (undisturbed / "summary.csv").read_bytes() == table


def test_killed_inside_the_very_first_checkpoint(undisturbed: Path, tmp_path: Path) -> None:
    ended = sweep(tmp_path, "checkpoint", "n1-p1-s0", "1")
    assert ended.returncode == -9
    (part,) = [p for p in parts(tmp_path) if p.is_dir()]
    assert (part / "memory.safetensors").stat().st_size > 0
    assert sweep(tmp_path).returncode == 0
    assert not parts(tmp_path)
    assert_equal_sweeps(undisturbed, tmp_path)

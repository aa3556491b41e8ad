"""``kill -9`` of a sweep at five seeded instants: nothing is lost, nothing differs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import files
from tests.support.faults import told
from tests.support.killing import Sweep
from tests.support.runs import parts

pytestmark = [pytest.mark.proof, pytest.mark.processes]

SWEEP = Sweep(
    [
        "--temporal",
        "2,5",
        "--gradient",
        "0.1,0.05",
        "--evaluate-every",
        "4",
        "--checkpoint-every",
        "3",
    ],
    60,
    ["n1-p1-s0", "n2-p0.1-s0", "n2-p0.05-s0", "n5-p0.1-s0", "n5-p0.05-s0"],
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    out = tmp_path_factory.mktemp("undisturbed")
    ended = SWEEP.run(out)
    assert ended.returncode == 0, ended.stderr
    assert SWEEP.done(out) == SWEEP.grid
    yield out


def test_the_instants_are_five_and_one_is_inside_a_checkpoint() -> None:
    found = SWEEP.instants(20)
    assert len(found) == 5 and len({cell for _, cell, _ in found}) == 5
    assert [where for where, _, _ in found].count("checkpoint") == 1


def test_killed_at_five_instants(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    SWEEP.run_killed(out, SWEEP.instants(20))
    SWEEP.assert_equal(undisturbed, out)
    told("kill -9", "sweep", len(SWEEP.instants(20)))


def test_the_same_command_after_the_end_runs_nothing(undisturbed: Path) -> None:
    before, table = files(undisturbed / "cells"), (undisturbed / "summary.csv").read_bytes()
    ended = SWEEP.run(undisturbed)
    (last,) = ended.stderr.splitlines()  # no note on momentum masking
    assert ended.returncode == 0 and "were finished before" in last
    assert files(undisturbed / "cells") == before
    assert (undisturbed / "summary.csv").read_bytes() == table


def test_killed_inside_the_very_first_checkpoint(undisturbed: Path, tmp_path: Path) -> None:
    ended = SWEEP.run(tmp_path, "checkpoint", "n1-p1-s0", "1")
    assert ended.returncode == -9
    (part,) = [p for p in parts(tmp_path) if p.is_dir()]
    assert (part / "memory.safetensors").stat().st_size > 0
    assert SWEEP.run(tmp_path).returncode == 0
    assert not parts(tmp_path)
    SWEEP.assert_equal(undisturbed, tmp_path)
    told("kill -9", "sweep, first checkpoint", 1)

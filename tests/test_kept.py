"""Folders that earlier versions wrote are read, checked, compared, gone on with and extended.

``tests/kept/make.py`` wrote them; each version adds its own, and none is ever changed.
"""

import shutil
from pathlib import Path

import pandas as pd
import pytest

import fedsim
from fedsim.settings.config import from_toml
from tests.kept.make import HERE, RUN, SWEEP
from tests.support.commands import Typed, files, no_page, typed
from tests.support.interrupting import recording

__all__ = ["no_page", "typed"]  # fixtures

VERSIONS = sorted(path.parent.name for path in HERE.glob("*/run"))

pytestmark = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture
def kept(version: str, typed: Typed) -> Path:
    """A copy in the current folder, where the task's file is too."""
    shutil.copy(HERE / "task.py", "task.py")
    shutil.copytree(HERE / version, "kept")
    return Path("kept")


def column(folder: Path, file: str, name: str) -> list[object]:
    """The values of one column of a table."""
    return pd.read_parquet(folder / f"{file}.parquet")[name].tolist()


def test_load_and_verify(kept: Path, typed: Typed) -> None:
    run, sweep = fedsim.load(kept / "run"), fedsim.load(kept / "sweep")
    assert (len(run.runs), len(run.rounds), len(sweep.runs)) == (1, 4, 4)
    sent = sum(8 * file.stat().st_size for file in (kept / "run").rglob("*-up.bin"))
    assert sent == run.rounds["up_wire_bits"].sum() == 2 * run.runs["up_wire_bits"].item() > 1000
    assert sweep.runs["metric"].between(0.1, 1).all()
    for folder in ("run", "sweep"):
        said = typed("verify", kept / folder, "--own", "task.py:TASK", "--rerun")
        assert said.code == 0, said.out + said.err


@pytest.mark.slow
def test_a_finished_sweep_is_not_run_again(kept: Path, typed: Typed, no_page: None) -> None:
    before = files(kept / "sweep" / "cells")
    said = typed(*SWEEP, "--jobs", "1", "--out", kept / "sweep")
    assert said.code == 0, said.err
    assert files(kept / "sweep" / "cells") == before


def test_a_run_is_extended(kept: Path, typed: Typed, no_page: None) -> None:
    before = column(kept / "run", "clients", "digest_up")
    said = typed(*RUN, "12", "--out", kept / "run")
    assert said.code == 0, said.err
    assert column(kept / "run", "rounds", "round") == [1, 2, 3, 4, 5, 6]
    assert column(kept / "run", "clients", "digest_up")[: len(before)] == before
    assert typed("verify", kept / "run", "--own", "task.py:TASK").code == 0


def test_a_stopped_run_goes_on(kept: Path, typed: Typed) -> None:
    seen: list[int] = []
    config = from_toml(kept / "stopped" / "config.toml")
    fedsim.run(config, kept / "stopped", callbacks=[recording(seen)], progress=False)
    assert seen == [4]
    whole = column(kept / "run", "clients", "digest_up")
    assert column(kept / "stopped", "clients", "digest_up")[:6] == whole[:6]
    assert column(kept / "stopped", "rounds", "round") == [1, 2, 3, 4]
    assert typed("verify", kept / "stopped", "--own", "task.py:TASK").code == 0


@pytest.mark.slow
def test_reports_and_comparisons(kept: Path, typed: Typed) -> None:
    said = typed("report", kept / "run", kept / "sweep", "--out", "both")
    assert said.code == 0, said.err
    assert Path("both", "report.html").stat().st_size > 100_000
    shutil.copytree(kept / "sweep", "again")
    said = typed("compare", kept / "sweep", "again")
    assert said.code == 0, said.err

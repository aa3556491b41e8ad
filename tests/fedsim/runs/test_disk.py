"""A disk that is full and a folder that is deleted during a run: named, and the command goes on."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedsim import run
from fedsim.commands.cli import SOME_FAILED
from fedsim.ground import files
from fedsim.ground.errors import RESUMES, RunFailed
from fedsim.results.schema import read_summary
from tests.support.commands import Typed
from tests.support.interrupting import stop_after
from tests.support.runs import assert_same, small

SAID = "cannot be written ({}); once it can be, the same command resumes"


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Called with a part of a path: files whose path has it do not fit on the disk any more."""
    replace = os.replace

    def make(name: str) -> None:
        def refusing(part: Any, path: Any) -> None:
            if name and name in str(path):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            replace(part, path)

        monkeypatch.setattr(files.os, "replace", refusing)

    return make


def test_a_folder_that_is_deleted_during_a_run_is_named(tmp_path: Path) -> None:
    config, out = small(checkpoint_every=1), tmp_path / "out"

    def delete(row: dict[str, Any]) -> None:
        if row["round"] == 2:
            shutil.rmtree(out)

    with pytest.raises(RunFailed) as told:
        run(config, out, callbacks=[delete])
    assert str(told.value) == f"{out} {SAID.format('No such file or directory')}"
    assert run(config, out).summary["status"] == "done"


def test_a_folder_that_is_made_again_is_named(tmp_path: Path) -> None:
    """As a client's memory in it makes it again: a run would end without its settings."""
    config, out = small(), tmp_path / "out"

    def delete(row: dict[str, Any]) -> None:
        if row["round"] == 2:
            shutil.rmtree(out)
            (out / "nodes").mkdir(parents=True)

    with pytest.raises(RunFailed) as told:
        run(config, out, callbacks=[delete])
    assert str(told.value) == f"{out} {SAID.format('No such file or directory')}"
    assert run(config, out).summary["status"] == "done"
    run(config, tmp_path / "whole")
    assert_same(tmp_path / "whole", out)


def test_a_checkpoint_on_a_full_disk_leaves_nothing(
    tmp_path: Path, full: Callable[[str], None]
) -> None:
    full("checkpoint-")
    with pytest.raises(RunFailed, match="No space left on device"):
        run(small(checkpoint_every=1), tmp_path)
    assert not [*tmp_path.glob(".*.part")]


@pytest.mark.slow
def test_a_sweep_on_a_full_disk_names_its_cell(
    full: Callable[[str], None], typed: Typed, no_page: None
) -> None:
    arguments = ("sweep", "--temporal", "5", "--gradient", "0.1", "--no-baseline",
                 "--iterations", "20", "--jobs", "1", "--out", "out")  # fmt: skip
    for name, named in (("summary.json", "out/cells/n5-p0.1-s0"), ("summary.csv", "out")):
        full(name)
        said = typed(*arguments)
        assert said.code == SOME_FAILED
        wanted = f"fedsim: {named} {SAID.format('No space left on device')}"
        assert said.err.splitlines()[-1] == wanted
        full("")
        assert typed(*arguments).code == 0
        shutil.rmtree(Path("out"))


def test_another_error_of_a_run_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run(small(), tmp_path, callbacks=[stop_after(2, FileNotFoundError)])
    assert read_summary(tmp_path)["error"].endswith(RESUMES)

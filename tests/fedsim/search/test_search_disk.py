"""A disk that is full during a search: the folder is named, and the same command goes on."""

import errno
import os
import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from fedsim.ground import files
from fedsim.ground.errors import RunFailed
from fedsim.search.exploration import Exploration
from fedsim.search.study import _storage, journal, quiet
from tests.support.searching import searched

SAID = "cannot be written ({}); once it can be, the same command resumes"


@pytest.fixture
def room() -> Iterator[dict[str, int]]:
    """How many pages of 512 bytes the study's file may have from now on; none: any number."""
    most = dict[str, int]()

    def connected(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA page_size=512")
        if most:
            connection.execute(f"PRAGMA max_page_count={most['pages']}")  # or what it has

    event.listen(Engine, "connect", connected)
    yield most
    event.remove(Engine, "connect", connected)


@pytest.mark.slow
def test_the_journal_does_not_fit(room: dict[str, int], tmp_path: Path) -> None:
    out = tmp_path / "out"
    for pages, trials in ((20, 1), (1, 20)):  # no room for its tables; for a trial of several
        room["pages"] = pages
        with pytest.raises(RunFailed) as told:
            searched(out, trials=trials, seeds=1)
        assert str(told.value) == f"{out} {SAID.format('database or disk is full')}"
        room.clear()
        assert len(searched(out, trials=trials, seeds=1).trials) == trials


@pytest.mark.slow
def test_a_table_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def refusing(part: Any, path: Any) -> None:
        if "trials.csv" in str(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(part, path)

    with monkeypatch.context() as patched, pytest.raises(RunFailed) as told:
        patched.setattr(files.os, "replace", refusing)
        searched(tmp_path, trials=1, seeds=1)
    assert str(told.value) == f"{tmp_path} {SAID.format('No space left on device')}"
    assert searched(tmp_path, trials=1, seeds=1).finalists


@pytest.mark.slow
@pytest.mark.parametrize("when", ["_progress", "_tell"], ids=["in a trial", "between trials"])
def test_a_folder_that_is_deleted_ends_the_search(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial that is trained in the folder made again would be one that the next search finds."""
    out, whole = tmp_path / "out", getattr(Exploration, when)

    def deleting(*given: Any) -> Any:
        monkeypatch.setattr(Exploration, when, whole)
        said = whole(*given)
        shutil.rmtree(out)
        return said

    monkeypatch.setattr(Exploration, when, deleting)
    with pytest.raises(RunFailed) as told:
        searched(out, trials=2, seeds=1)
    assert str(told.value) == f"{out} {SAID.format('No such file or directory')}"
    assert not [*out.glob("cells/*/model.safetensors")]
    assert len(searched(out, trials=2, seeds=1).trials) == 2


def test_a_damaged_journal_is_not_called_a_full_disk(tmp_path: Path) -> None:
    from sqlalchemy.exc import DatabaseError

    damaged = DatabaseError("SELECT", {}, sqlite3.DatabaseError("file is not a database"))
    with pytest.raises(DatabaseError), journal(tmp_path):
        raise damaged


@pytest.mark.slow
@pytest.mark.parametrize("name", ["50%20a", "acc?", "{date}", "a#b", "é \udcff"])
def test_a_study_lies_in_the_folder_of_any_name(tmp_path: Path, name: str) -> None:
    """In a URL these mean something else: the study of another folder, or a file beside it."""
    (tmp_path / name).mkdir()
    study = optuna.create_study(storage=_storage(tmp_path / name / "study.db"), study_name="one")
    study.set_user_attr("begun", True)
    again = optuna.load_study(storage=_storage(tmp_path / name / "study.db"), study_name="one")
    assert again.user_attrs == {"begun": True}
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["study.db"]
    assert (tmp_path / name / "study.db").stat().st_size


def test_optuna_s_level_and_warnings_are_left_alone() -> None:
    before = optuna.logging.get_verbosity(), [*warnings.filters]
    with quiet():
        assert optuna.logging.get_verbosity() == optuna.logging.WARNING
    assert (optuna.logging.get_verbosity(), [*warnings.filters]) == before

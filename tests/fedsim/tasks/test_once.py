"""Data sets are read once, by one of all who ask at the same time."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedsim.tasks.data.memo import read_once


def test_threads_wait_for_one_copy() -> None:
    calls: list[str] = []

    @read_once
    def load(folder: Path | None, download: bool) -> list[str]:
        assert folder is not None
        calls.append(folder.name)
        time.sleep(0.02)  # long enough for all to ask
        return [folder.name]

    with ThreadPoolExecutor(8) as pool:
        copies = list(pool.map(load, [Path("a")] * 8))
    assert calls == ["a"] and all(copy is copies[0] for copy in copies)
    load(Path("b"))
    assert load(Path("a")) is not copies[0]  # one is kept, the last
    assert calls == ["a", "b", "a"]


def test_the_folder_is_whole_and_the_environments_where_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = read_once(lambda folder, download: (folder, download))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDSIM_DATA", "here")
    assert load() == (tmp_path.resolve() / "here", False)
    assert load(Path("there"), True) == (tmp_path.resolve() / "there", True)
    monkeypatch.setenv("FEDSIM_DATA", "")
    assert load() == (None, False)

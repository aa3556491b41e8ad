"""Folders on their way between machines: what travels, in which order it appears, what goes."""

import os
from pathlib import Path

import pytest

from fedsim.runs import archive
from fedsim.runs.archive import Outbox, pack_folder


def made(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def held(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_text() for file in files}


def test_a_run_goes_on_from_all_but_its_messages_and_settings(tmp_path: Path) -> None:
    """Nor does what is half written travel, nor a lock."""
    kept = {"checkpoint-00000002/values.json": "2", "error.txt": "why", "final/values.json": "0"}
    left = {
        "config.toml": "",
        "payloads/round-00001/client-000-up.bin": "",
        ".lock": "",
        ".a.part/values.json": "",
    }
    pack_folder(made(tmp_path / "home", kept | left)).unpack(tmp_path / "there")
    assert held(tmp_path / "there") == kept


def test_each_parcel_brings_what_is_new_and_takes_what_is_gone(tmp_path: Path) -> None:
    before = {"checkpoint-00000002/values.json": "2", "error.txt": "why", "mine.txt": "mine"}
    home = made(tmp_path / "home", before | {"payloads/round-00001/a.bin": "a"})
    there = tmp_path / "there"
    pack_folder(home).unpack(there)
    outbox = Outbox(there, home)
    assert not outbox.has_checkpoint() and outbox.pack().files == {}
    made(there, {"checkpoint-00000004/values.json": "4", "payloads/round-00003/b.bin": "b"})
    (there / "checkpoint-00000002/values.json").unlink()
    (there / "checkpoint-00000002").rmdir()
    assert outbox.has_checkpoint()
    sent = outbox.pack()
    assert sent.home == home and len(sent.files) == 2 and not outbox.has_checkpoint()
    sent.unpack(home)
    made(there, {"payloads/round-00003/b.bin": "longer", "summary.json": "done"})
    (there / "error.txt").unlink()
    outbox.pack().unpack(home)
    assert held(home) == {
        "checkpoint-00000004/values.json": "4",
        "payloads/round-00001/a.bin": "a",
        "payloads/round-00003/b.bin": "longer",
        "summary.json": "done",
        "mine.txt": "mine",
    }
    assert not (home / "checkpoint-00000002").exists()


class Killed(BaseException):
    """As a signal ends a process."""


@pytest.mark.parametrize("steps", range(4))
def test_a_kill_at_any_step_leaves_whole_checkpoints_and_the_summary_last(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = {
        "checkpoint-00000004/memory": "m",
        "checkpoint-00000004/values.json": "4",
        "summary.json": "done",
        "zzz.parquet": "rows",
    }
    home, there = made(tmp_path / "home", {"checkpoint-00000002/memory": "2"}), tmp_path / "there"
    pack_folder(home).unpack(there)
    outbox = Outbox(made(there, {}), home)
    made(there, new)
    (there / "checkpoint-00000002/memory").unlink()
    real, left = os.replace, steps

    def replace(source: Path, target: Path) -> None:
        nonlocal left
        if Path(target).parent == home:
            left -= 1
            if left < 0:
                raise Killed
        real(source, target)

    sent = outbox.pack()
    with monkeypatch.context() as patch:
        patch.setattr(archive.os, "replace", replace)
        if steps < 3:
            with pytest.raises(Killed):
                sent.unpack(home)
        else:
            sent.unpack(home)
    found = held(home)
    assert sum(path.startswith("checkpoint-00000004") for path in found) in (0, 2)
    assert ("summary.json" in found) == (steps == 3) == ("checkpoint-00000002/memory" not in found)
    sent.unpack(home)
    assert held(home) == new

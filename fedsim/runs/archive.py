"""A run's folder on its way between machines that share no disk, and messages between them."""

import asyncio
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from fedsim.ground.files import sync, write_bytes, write_text

_TOKEN = ".token"
_SUMMARY = "summary.json"
_STAY = ("config.toml", "payloads", "replies")
"""What a run does not go on from: its settings travel by themselves, and messages are many."""

_Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Archive:
    """Files of a run's folder."""

    home: Path  # the folder on the machine that keeps the results
    files: dict[str, bytes]  # by path inside of the folder, what is new since the archive before
    removed_paths: tuple[str, ...] = ()  # that are no longer there

    def unpack(self, folder: Path) -> None:
        """Makes ``folder`` like the one that was sent, so that a kill leaves a run that goes on.

        A checkpoint appears whole, the summary after all that it tells of.
        """
        part = folder / f".{secrets.token_hex(8)}.part"
        try:
            for path, content in self.files.items():
                (part / path).parent.mkdir(parents=True, exist_ok=True)
                write_bytes(part / path, content)
            for path in sorted(self.files, key=_SUMMARY.__eq__):
                top = PurePath(path).parts[0]
                entry = path if (folder / top).exists() else top
                if (part / entry).exists():  # it has not come with the folder that it is in
                    (folder / entry).parent.mkdir(parents=True, exist_ok=True)
                    os.replace(part / entry, folder / entry)
            for path in self.removed_paths:
                (folder / path).unlink(missing_ok=True)
                with suppress(OSError):  # it holds more, or is not there
                    os.removedirs((folder / path).parent)
            sync(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)


class Outbox:
    """A folder whose files are sent home as they come; ``home`` has the same files so far."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        self._sent, self._last = _stamps(folder), _checkpoint_in(folder)

    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint that has not been sent."""
        return _checkpoint_in(self.folder) not in (None, self._last)

    def pack(self) -> Archive:
        """All that is new or gone since the archive before."""
        before, now = self._sent, _stamps(self.folder)
        self._sent, self._last = now, _checkpoint_in(self.folder)
        new = [path for path, stamp in now.items() if before.get(path) != stamp]
        files = {path: (self.folder / path).read_bytes() for path in new}
        return Archive(self.home, files, tuple(path for path in before if path not in now))


def pack_folder(folder: Path) -> Archive:
    """The files from which a run in ``folder`` goes on, for machines that do not see it."""
    paths = [path for path in _stamps(folder) if PurePath(path).parts[0] not in _STAY]
    return Archive(folder, {path: (folder / path).read_bytes() for path in paths})


def mark(folder: Path) -> str:
    """Writes a token into ``folder``, which is made if need be, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(16)
    write_text(folder / _TOKEN, token)
    return token


def sees(folder: Path, token: str) -> bool:
    """Whether ``folder`` is here what it is where the token was written."""
    try:
        return (folder / _TOKEN).read_text(encoding="utf-8") == token
    except OSError:
        return False


def unmark(folder: Path) -> None:
    """Removes the token."""
    (folder / _TOKEN).unlink(missing_ok=True)


def _stamps(folder: Path) -> dict[str, _Stamp]:
    """Path -> what changes as the file does; hidden ones are locks and files half written."""
    stamps = {}
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder)
        if file.is_file() and not any(part.startswith(".") for part in path.parts):
            stat = file.stat()
            stamps[path.as_posix()] = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    return stamps


def _checkpoint_in(folder: Path) -> str | None:
    from fedsim.runs import checkpoint  # needs torch, which a process of archives has not

    return checkpoint.last(folder)


class Pinned(NamedTuple):
    """A round's row of a run, and files where the run's machine does not see its folder."""

    key: str
    name: str
    row: dict[str, Any]
    archive: Archive | None


class Board:
    """A Ray actor: runs pin their rows, and wait there until the driver has answered.

    A run that did not wait would be told too late that it is to end, or never: a round may take a
    millisecond.
    """

    def __init__(self) -> None:
        self._rows: list[Pinned] = []
        self._answers: dict[str, asyncio.Future[str | None]] = {}
        self._some = asyncio.Event()

    async def pin(self, name: str, row: dict[str, Any], archive: Archive | None) -> str | None:
        """Keeps a row and files; returns the driver's answer: why its run is to end, or None."""
        key = secrets.token_hex(8)  # a board that Ray has started again knows its own rows only
        self._answers[key] = asyncio.get_running_loop().create_future()
        self._rows.append(Pinned(key, name, row, archive))
        self._some.set()
        return await self._answers[key]

    async def take(self) -> list[Pinned]:
        """All rows that came since the last call, once there is one."""
        await self._some.wait()
        self._some.clear()
        rows, self._rows = self._rows, []
        return rows

    async def answer(self, answers: dict[str, str | None]) -> None:
        """Lets the runs of these rows go on, or end."""
        for key, reason in answers.items():
            if (waiting := self._answers.pop(key, None)) is not None:
                waiting.set_result(reason)

"""One writer per results folder: a second writer is refused.

The lock is the kernel's (``flock``): it ends with the process, however the process ends. A file
``.lock`` that a kill leaves behind locks nothing. It is empty: the kernel knows which process
holds it. Windows has no ``flock``: nothing is locked there.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from fedsim.ground.errors import UsageError, writable
from fedsim.ground.files import clear

if sys.platform != "win32":
    import fcntl

LOCK_FILE = ".lock"
_POLL_SECONDS = 0.1
_LOCKS = Path("/proc/locks")


class FolderBusy(UsageError):
    """Another process writes to the folder."""


@contextmanager
def locked(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Holds ``folder``, which is made if need be, while the block lasts; clears it before.

    ``patience``: seconds to wait for another writer to end.

    Raises ``FolderBusy`` naming the process that writes to the folder, and ``UsageError`` naming
    what forbids writing.
    """
    if sys.platform == "win32":
        yield
        return
    until = time.monotonic() + patience
    while (file := _taken(folder)) is None:
        if time.monotonic() >= until:
            try:
                file_stat = (folder / LOCK_FILE).stat()
                since = datetime.fromtimestamp(file_stat.st_mtime, UTC)
                who = f"{_holder(file_stat)}since {since:%Y-%m-%d %H:%M:%S} UTC"
            except OSError:  # that process has just ended
                who = "which has just ended"
            raise FolderBusy(
                f"--out is {folder}: another process writes to it ({who}); wait for it or stop it, "
                "or choose another folder"
            )
        time.sleep(_POLL_SECONDS)
    with file:
        try:
            clear(folder)
            yield
        finally:
            (folder / LOCK_FILE).unlink(missing_ok=True)  # while it is held: see _taken


def is_held(folder: Path) -> bool:
    """Whether a process is known to hold ``folder``; where the system does not tell, none is."""
    try:
        return bool(_holder((folder / LOCK_FILE).stat()))
    except OSError:
        return False


def _taken(folder: Path) -> IO[str] | None:
    """The lock's file, open and locked; None where another process has it."""
    with writable("--out", folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK_FILE).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:
        file.close()
        raise UsageError(
            f"--out is {folder}: its file system cannot lock a file ({error.strerror}), so that "
            "two runs could write there at once; choose a folder on another file system"
        ) from error
    try:
        same = os.path.samestat(os.fstat(file.fileno()), (folder / LOCK_FILE).stat())
    except FileNotFoundError:
        same = False
    if not same:  # the writer before removed the file after we opened it
        file.close()
        return _taken(folder)
    os.utime(file.fileno())
    return file


def _holder(file: os.stat_result) -> str:
    """Words for the process that has locked a file; empty where the system does not know it.

    A process on another machine that shares the folder is not known here.
    """
    device, place = file.st_dev, file.st_ino
    inode = f"{os.major(device):02x}:{os.minor(device):02x}:{place}"
    try:
        locks = [line.split() for line in _LOCKS.read_text(encoding="ascii").splitlines()]
    except OSError:  # not Linux
        return ""
    holders = [words[4] for words in locks if words[1:2] == ["FLOCK"] and inode in words]
    return f"process {holders[0]} of this machine, " if holders else ""

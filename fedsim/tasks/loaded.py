"""A task's data, loaded once a process until their files change, and the digest of a user's own."""

import dis
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

from compressors.beside import staying
from compressors.usercode import typed, user_code
from fedsim.ground.errors import DataError, UsageError
from fedsim.ground.threads import lock_of_process
from fedsim.tasks.base import Data, Task, check
from fedsim.tasks.data import listed
from fedsim.tasks.given import Once
from fedsim.tasks.known import is_ours, reads_ours

_ONE = lock_of_process()


class Loaded(NamedTuple):
    """Data, and what they are; ``stamp`` changes where a file does from which they come.

    ``content`` is a digest and what it is of: ``samples``, ``bytes`` of files, or their ``names,
    sizes and times``. It is empty for a task of fedsim's, and for data that come from no file.
    """

    data: Data
    content: str
    stamp: str


def loaded(task: Task, folder: str | None, download: bool) -> Loaded:
    """The data of a task.

    Args:
        task: whose ``load`` is called if need be.
        folder: the data folder; None: none is given.
        download: whether it may download.

    Raises ``DataError`` where it fails, or returns something else than ``Data``.
    """
    place = Path(folder) if folder else None
    with _ONE:
        return _loaded(task, place, download, listed.stamp(_sources(task, place)))


def content_of(task: Task, folder: str | None, download: bool) -> str:
    """``Loaded.content``; the data are loaded where it is not known yet."""
    place = Path(folder) if folder else None
    with _ONE:
        return known_content(task, place, download, listed.stamp(_sources(task, place)))


@lru_cache(maxsize=2)
def _loaded(task: Task, folder: Path | None, download: bool, stamp: str) -> Loaded:
    try:
        with user_code(), staying():
            data = task.load(folder, download)
    except UsageError:  # says itself what it misses
        raise
    except Exception as error:
        none = "" if folder else " (none is given: --data DIR, data='DIR' in Python, $FEDSIM_DATA)"
        raise DataError(
            f"task {task.name}: load failed with folder {folder}{none}: {typed(error)}"
        ) from error
    check(task.name, data)
    # After it was loaded: what load itself has written there is there the next time, too.
    sources = [] if data.content else _sources(task, folder)
    found = [listed.content(path) for path in sources]
    return Loaded(data, "" if is_ours(task) else data.content or ", ".join(found), stamp)


@lru_cache(maxsize=1024)
def known_content(task: Task, folder: Path | None, download: bool, stamp: str) -> str:
    """``content_of`` for files as they are, kept longer than the data."""
    return _loaded(task, folder, download, stamp).content


def _sources(task: Task, folder: Path | None) -> list[Path]:
    """The files and folders that a user's own task reads: its own, or the data folder."""
    if isinstance(task.load, Once):
        return task.load.paths(folder)
    if folder is None or not folder.exists() or reads_ours(task) or not _reads(task.load):
        return []
    return [folder.resolve()]


def _reads(load: object) -> bool:
    """Whether a ``load`` looks at the data folder that it is given: not where it makes data up.

    Example:
        >>> _reads(lambda folder, download: folder / "a.csv"), _reads(lambda folder, download: 1)
        (True, False)
    """
    if not isinstance(load, FunctionType) or not load.__code__.co_argcount:
        return True
    first = load.__code__.co_varnames[0]
    return any(
        first in (x.argval if isinstance(x.argval, tuple) else (x.argval,))
        for x in dis.get_instructions(load)
        if x.opname.startswith("LOAD")
    )

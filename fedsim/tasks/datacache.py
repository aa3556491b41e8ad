"""A task's data, loaded once a process until their files change, and the digest of a user's own."""

from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from compressors.usercode import located, staying, user_code
from fedsim.ground.errors import DataError, UsageError
from fedsim.ground.threads import lock_of_process, one_thread
from fedsim.tasks.base import Data, Task, check_data
from fedsim.tasks.data import datafiles, samples
from fedsim.tasks.factories import Reader
from fedsim.tasks.registry import reads_builtin

_ONE = lock_of_process()  # threads wait for one copy; tasks may nest


class LoadedData(NamedTuple):
    """Data, and a digest of them, after a word for what it is of.

    It is of the ``samples`` in memory. Where inputs are read when a batch needs them, it is of the
    ``bytes`` of the files in the data folder, or of their ``names, sizes and times``. It is empty
    where ``load`` is one of fedsim's: which data these are is in their source.
    """

    data: Data
    content: str


def load_data(task: Task, folder: str | None, download: bool) -> LoadedData:
    """The data of a task.

    Raises ``DataError`` where it fails, or returns something else than ``Data``.
    """
    place = Path(folder) if folder else None
    with _ONE:
        return _load_data(task, place, download, datafiles.stamp(_sources(task, place)))


def task_content(task: Task, folder: str | None, download: bool) -> str:
    """``LoadedData.content``; a user's data are loaded where it is not known yet."""
    if reads_builtin(task):
        return ""
    place = Path(folder) if folder else None
    with _ONE:
        return cached_content(task, place, download, datafiles.stamp(_sources(task, place)))


@lru_cache(maxsize=2)
def _load_data(task: Task, folder: Path | None, download: bool, stamp: str) -> LoadedData:
    try:
        with ExitStack() as inside:
            inside.enter_context(user_code())
            inside.enter_context(staying())
            if not reads_builtin(
                task
            ):  # sums are the same in every process, with any number of cores
                inside.enter_context(one_thread())
            data = task.load(folder, download)
    except UsageError:  # says itself what it misses
        raise
    except Exception as error:
        none = "" if folder else " (none is given: --data DIR, data='DIR' in Python, $FEDSIM_DATA)"
        raise DataError(
            f"task {task.name}: load failed with folder {folder}{none}: {located(error)}"
        ) from error
    check_data(task.name, data)
    return LoadedData(data, _content(task, data, folder))


def _content(task: Task, data: Data, folder: Path | None) -> str:
    """``LoadedData.content``; of files after ``load``, which may have written some of them."""
    if reads_builtin(task):
        return data.content
    files = [] if data.content or samples.in_memory(data) else _sources(task, folder)
    content = (
        data.content
        or ", ".join(map(datafiles.content_digest, files))
        or samples.memory_digest(data)
    )
    also = [] if data.shards is None else [samples.shards_digest(data.shards)]
    return ", ".join([content, *also, *([f"base {data.base}"] if data.base else [])])


@lru_cache(maxsize=1024)
def cached_content(task: Task, folder: Path | None, download: bool, stamp: str) -> str:
    """``task_content`` for files as they are, kept longer than the data."""
    return _load_data(task, folder, download, stamp).content


def _sources(task: Task, folder: Path | None) -> list[Path]:
    """The files and folders, as far as they are known, that a user's own task may read."""
    if isinstance(task.load, Reader):
        return task.load.paths(folder)
    if folder is None or not folder.exists() or reads_builtin(task):
        return []
    return [folder.resolve()]

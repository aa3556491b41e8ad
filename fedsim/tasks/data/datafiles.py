"""The files that data come from: which they are, when they change, and a digest of them."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from fedsim.ground.errors import DataError
from fedsim.ground.files import digest

DIGEST_BYTES = 2**30
"""Bytes up to which a digest is of what files hold; above, of their names, sizes and times."""

_NO_DATA = (".py", ".pyc", ".ipynb")
_RESULTS = {".lock", "environment.json", "sweep.toml", "runs.toml", "study.db"}
"""Files by which a folder of results is known: it may lie in the data folder, and grows."""

_MANY, _AGAIN = 1000, 20
"""A listing of so many files is believed for so many times as long as it took."""


class DataFile(NamedTuple):
    """A file by its name below the folder that was listed, its place, its size and its time."""

    name: str
    path: Path
    size: int
    changed: int


def list_files(path: Path) -> list[DataFile]:
    """A file, or the files below a folder, by name.

    Left out are hidden files and folders, Python's files and notebooks, folders of results, and
    other things than files: links to nothing, pipes, sockets. Raises ``DataError`` where one is
    not read.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("b.csv", "a.csv", ".hidden", "task.py"):
        ...     _ = (folder / name).write_text("1")
        >>> [file.name for file in list_files(folder)]
        ['a.csv', 'b.csv']
    """
    files = []
    with _readable():
        for file in [path] if path.is_file() else files_below(path):
            try:
                stat = file.stat()
            except FileNotFoundError:  # it leads nowhere, or has gone since
                continue
            if S_ISREG(stat.st_mode):
                name = file.relative_to(path).as_posix()
                files.append(DataFile(name, file.resolve(), stat.st_size, stat.st_mtime_ns))
    return sorted(files)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"data: {error.filename} cannot be read: {error.strerror}") from error


def files_below(folder: Path) -> Iterator[Path]:
    """The files below a folder that may be data, in no order."""
    for place, folders, files in os.walk(folder, onerror=_refuse):
        if Path(place) != folder and not _RESULTS.isdisjoint(files):
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        for name in files:
            if not name.startswith(".") and not name.endswith(_NO_DATA):
                yield Path(place, name)


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


_LAST: dict[tuple[Path, ...], tuple[float, str]] = {}


def stamp(paths: Iterable[Path]) -> str:
    """What changes where a file of these, or below these folders, does; empty for none."""
    key = tuple(paths)
    until, text = _LAST.get(key, (0.0, ""))  # a sweep asks for each cell
    start = time.monotonic()
    if not key or start < until:
        return text
    lines = [f"{f.path} {f.size} {f.changed}" for path in key for f in list_files(path)]
    text = blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()
    if len(lines) > _MANY:
        _LAST[key] = start + (1 + _AGAIN) * (time.monotonic() - start), text
    return text


def content_digest(path: Path) -> str:
    """What a file or folder holds: ``bytes`` and a digest, or ``names, sizes and times`` and one.

    The digest of a file's bytes is known until its size or time changes.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.csv").write_text("1")
        >>> content_digest(folder)
        'bytes c4867d9b2916cc92'
    """
    files = list_files(path)
    by_bytes = sum(file.size for file in files) <= DIGEST_BYTES
    lines = [
        f"{f.name} {_digest(f.path, f.size, f.changed) if by_bytes else f'{f.size} {f.changed}'}"
        for f in files
    ]
    hexdigest = blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()
    return f"{'bytes' if by_bytes else 'names, sizes and times'} {hexdigest}"


@lru_cache(maxsize=4096)
def _digest(path: Path, size: int, changed: int) -> str:
    with _readable():
        return digest(path)

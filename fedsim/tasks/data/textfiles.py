"""Text files of data sets, plain or packed with gzip."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path

from fedsim.ground.errors import DataError
from fedsim.tasks.data.idx import data_folder


def base(task: str, folder: Path | None, what: str) -> Path:
    """The data folder: as given or `$FEDSIM_DATA`.

    Raises:
        DataError: no data folder is given; `what` says which files belong into it.
    """
    data = data_folder(folder)
    if data is None:
        raise DataError(
            f"task {task}: no data folder is given.\nPut {what} into a folder DIR and give "
            "--data DIR or set $FEDSIM_DATA=DIR; nothing is downloaded for this task."
        )
    return data


def present(path: Path) -> Path | None:
    """`path`, or `path` with `.gz`, or None where neither is a file."""
    packed = path.with_name(path.name + ".gz")
    return path if path.is_file() else packed if packed.is_file() else None


def first_present(task: str, folder: Path, names: Sequence[tuple[str, ...]]) -> list[Path]:
    """The files of the first set of names below `folder` that is whole.

    Raises:
        DataError: no set is whole; the message lists the sets.
    """
    for group in names:
        paths = [present(folder / name) for name in group]
        if all(paths):
            return [path for path in paths if path is not None]
    known = "; or ".join(", ".join(group) for group in names)
    raise DataError(
        f"task {task}: its files are not in {folder}.\nIt takes {known} (each plain or as .gz)."
    )


def content(task: str, path: Path) -> tuple[bytes, str]:
    """The unpacked bytes of a file and the first eight hex digits of their SHA-256.

    Raises:
        DataError: the file is damaged.
    """
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(task, path, error) from error
    return data, hashlib.sha256(data).hexdigest()[:8]


def read(task: str, path: Path) -> tuple[str, str]:
    """As `content`, the bytes as text (UTF-8)."""
    data, digest = content(task, path)
    try:
        return data.decode(), digest
    except UnicodeDecodeError as error:
        raise _damaged(task, path, error) from error


def _damaged(task: str, path: Path, error: Exception) -> DataError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return DataError(f"task {task}: {path} cannot be read ({reason}).\nGet it again.")

"""Text files of data sets, plain or packed with gzip."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path

from fedsim.ground.errors import DataError
from fedsim.tasks.optional import first_line


def first_present(task: str, folder: Path | None, names: Sequence[tuple[str, ...]]) -> list[Path]:
    """The files of the first set of names below `folder` that is whole, each plain or as `.gz`.

    Raises:
        DataError: no data folder is given, or no set is whole; the message lists the sets.
    """
    if folder is None:
        file_names = " or ".join(" and ".join(group) for group in names)
        raise DataError(
            f"task {task}: no data folder is given.\nPut {file_names} into a folder DIR and give "
            "--data DIR or set $FEDSIM_DATA=DIR; nothing is downloaded for this task."
        )
    for group in names:
        forms = [(folder / name, folder / f"{name}.gz") for name in group]
        paths = [next((path for path in form if path.is_file()), None) for form in forms]
        if all(paths):
            return [path for path in paths if path is not None]
    choices = "; or ".join(", ".join(group) for group in names)
    raise DataError(
        f"task {task}: its files are not in {folder}.\nIt takes {choices} (each plain or as .gz)."
    )


def unpack_file(task: str, path: Path) -> tuple[bytes, str]:
    """The unpacked bytes of a file and the first eight hex digits of their SHA-256."""
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(task, path, error) from error
    return data, hashlib.sha256(data).hexdigest()[:8]


def decode_file(task: str, path: Path) -> tuple[str, str]:
    """As `unpack_file`, the bytes as text (UTF-8)."""
    data, digest = unpack_file(task, path)
    try:
        return data.decode(), digest
    except UnicodeDecodeError as error:
        raise _damaged(task, path, error) from error


def _damaged(task: str, path: Path, error: Exception) -> DataError:
    return DataError(f"task {task}: {path} cannot be read ({first_line(error)}).\nGet it again.")

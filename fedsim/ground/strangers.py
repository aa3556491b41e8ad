"""Files of results that anybody may have made: read whole, within bounds, or refused in one line.

A folder may hold a FIFO, on which a reader would wait, a device without an end, a link to a file of
somebody else's, or a small file that fills the memory when it is unpacked.
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

MOST_TEXT = 64 * 2**20
"""Bytes of the longest file of settings, or of a summary, that is read."""

MOST_ROOM, MOST_TIMES = 256 * 2**20, 64
"""Bytes that a table may take in memory, or so many times the bytes of its file if that is more."""


def check_file(file: Path) -> None:
    """Refuses all that is not an ordinary file, and a link that leads out of its folder.

    Raises ``FileNotFoundError`` where there is none, and ``ValueError``: why it is refused.
    """
    if file.is_symlink() and not file.resolve().is_relative_to(file.parent.resolve()):
        raise ValueError("it is a link that leads out of its folder")
    if not stat.S_ISREG(file.stat().st_mode):
        raise ValueError("it is a folder" if file.is_dir() else "it is no ordinary file")


def check_links(folder: Path) -> None:
    """Refuses a folder of results in which a file is none, or a link leads out of it.

    Raises ``ValueError``, which names the file.
    """
    home = folder.resolve()
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            file = Path(place, name)
            mode = os.lstat(file).st_mode
            named = file.relative_to(folder)
            if stat.S_ISLNK(mode) and not file.resolve().is_relative_to(home):
                raise ValueError(f"{named} is a link that leads out of its folder")
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                raise ValueError(f"{named} is no ordinary file")


def read_file(file: Path, limit: int | None = None) -> bytes:
    """The content of an ordinary file; errors as ``check_file``.

    ``limit``: how many bytes it may have; None: as many as it has.
    """
    check_file(file)
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # it was replaced in the meantime
            raise ValueError("it is no ordinary file")
        if limit is not None and os.fstat(handle).st_size > limit:
            raise ValueError(f"it has more than {limit} bytes")
        return opened.read()


def read_text(file: Path) -> str:
    """The text of an ordinary file of at most ``MOST_TEXT`` bytes; errors as ``check_file``."""
    return read_file(file, MOST_TEXT).decode("utf-8")


def read_json(file: Path) -> Any:
    """The value in a JSON file; errors as ``check_file``, and ``ValueError`` where it is none."""
    try:
        return json.loads(read_text(file))
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error


_ONE_THREAD = 2**20  # bytes of a table, which more threads would take longer to read

_MOST_LEVELS = 100


def read_toml(file: Path) -> dict[str, Any]:
    """The values in a TOML file; errors as ``check_file``, and ``ValueError`` where it is none."""
    return parsed_toml(read_text(file))


def parsed_toml(text: str) -> dict[str, Any]:
    """The values of a TOML text; ``ValueError`` where it is none, or nested too deeply."""
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error
    level: list[Any] = [values]
    for _ in range(_MOST_LEVELS):  # not by a recursion
        inner = [x for part in level for x in (part.values() if isinstance(part, dict) else part)]
        level = [x for x in inner if isinstance(x, dict | list)]
        if not level:
            return values
    raise ValueError("its values are nested too deeply")


def table_of(content: bytes) -> pd.DataFrame:
    """The table in a parquet file with this content.

    Raises ``ValueError`` where it is none, or would take more memory than ``MOST_ROOM`` allows.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    def is_text(kind: Any) -> bool:
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    room, many = max(MOST_ROOM, MOST_TIMES * len(content)), len(content) > _ONE_THREAD
    with ParquetFile(pa.BufferReader(content)) as file:
        metadata, schema = file.metadata, file.schema_arrow
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        unpacked = sum(
            group.column(i).total_uncompressed_size
            for group in groups
            for i in range(group.num_columns)
        )
        if max(unpacked, 8 * metadata.num_rows * metadata.num_columns) > room:
            raise ValueError(f"its table takes more than {room} bytes of memory")
        if any(pa.types.is_nested(field.type) for field in schema):
            raise ValueError("a column of its table is no column of plain values")
    texts = [field.name for field in schema if is_text(field.type)]
    # Texts that repeat are stored once: their table is as small before they are written out.
    file = ParquetFile(pa.BufferReader(content), metadata=metadata, read_dictionary=texts)
    with file:
        table = file.read(use_threads=many)
    for name in texts:
        column = table.column(name)
        if not pa.types.is_dictionary(column.type):
            continue
        words = (word for part in column.chunks for word in part.dictionary.to_pylist())
        longest = max((len(word) for word in words if word is not None), default=0)
        if longest * len(column) > room:
            raise ValueError(f"its column {name} takes more than {room} bytes of memory")
        place = table.schema.get_field_index(name)
        table = table.set_column(place, schema.field(name), column.cast(schema.field(name).type))
    return table.to_pandas(use_threads=many)

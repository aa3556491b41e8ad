"""Files that appear whole or not at all: write beside the target, fsync, rename."""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:  # a client's machine need not have it
    import pandas as pd


@contextmanager
def replacing(path: Path | str) -> Iterator[IO[bytes]]:
    """A binary file to write that takes the place of `path` when the block ends well.

    The bytes go to a temporary file in the same directory (its name starts with "." and ends
    with ".part"), reach the disk, and only then get the name: a reader, or a run after a crash,
    sees the old content or the new and nothing between. If the block raises, `path` is as it
    was and the temporary file is gone.

    Args:
        path: the file to make or replace; its directory must exist.

    Raises:
        OSError: the directory is missing or cannot be written, or `path` is a directory.

    Example:
        with replacing("numbers.bin") as file:
            file.write(b"123")
    """
    path = Path(path)
    # Not derived from the target's name, which may already be as long as the file system allows.
    part = path.parent / f".{secrets.token_hex(8)}.part"
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_bytes(path: Path | str, data: bytes) -> None:
    """Makes or replaces the file `path` with `data`, whole or not at all (see `replacing`)."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: Path | str, text: str) -> None:
    """Makes or replaces the file `path` with `text` in UTF-8 (see `replacing`)."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path | str, obj: Any) -> None:
    """Makes or replaces the JSON file `path` with `obj`, indented (see `replacing`).

    NaN and infinities are written as `NaN` and `Infinity`, which Python's `json` reads back.

    Raises:
        TypeError: `obj` holds something that JSON has no form for.
    """
    write_text(path, json.dumps(obj, indent=2) + "\n")


def write_parquet(path: Path | str, frame: "pd.DataFrame") -> None:
    """Makes or replaces the parquet file `path` with `frame`, without its index."""
    with replacing(path) as file:
        frame.to_parquet(file, index=False)


def sync(path: Path) -> None:
    """Brings a file or a directory to disk.

    A rename is in the directory's own data: without this a power cut may undo it.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

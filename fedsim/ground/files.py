"""Files that appear whole or not at all, and digests that show later damage.

A file is written in its target's folder under another name, brought to disk and renamed.
"""

import hashlib
import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedsim.ground.strangers import check_file, read_json

if TYPE_CHECKING:  # a client's machine need not have pandas
    import pandas as pd
    from torch import Tensor

if sys.platform != "win32":  # where a file that somebody has open cannot be removed
    import fcntl


@contextmanager
def replacing(path: Path | str) -> Iterator[IO[bytes]]:
    """A binary file to write that takes the place of `path` when the block ends well.

    The bytes go to a temporary file in the same directory (its name starts with "." and ends
    with ".part"), reach the disk, and only then get the name: a reader, or a run after a crash,
    sees the old content or the new and nothing between. If the block raises, `path` is as it
    was and the temporary file is gone.

    Raises ``OSError``: the directory is missing or cannot be written, or `path` is a directory.
    """
    path = Path(path)
    # Not derived from the target's name, which may already be as long as the file system allows.
    part = path.parent / f".{secrets.token_hex(8)}.part"
    try:
        with ExitStack() as last:
            with part.open("xb") as file:
                last.enter_context(_held(file))
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync(path.parent)


def clear(folder: Path) -> None:
    """Removes the temporary files of `replacing` that killed processes have left in `folder`.

    A file that a process writes to at this moment stays: it holds a lock.
    """
    for part in folder.glob(".*.part"):
        with suppress(OSError), part.open("rb") as file:  # a folder is a checkpoint's
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


@contextmanager
def _held(file: IO[bytes]) -> Iterator[None]:
    """The lock that ``clear`` looks for, where there are locks; it outlasts the file's closing."""
    if sys.platform == "win32":
        yield
        return
    handle = os.dup(file.fileno())
    try:
        with suppress(OSError):  # a file system without locks, where nothing is cleared either
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def write_bytes(path: Path | str, data: bytes) -> None:
    """Makes or replaces the file `path` with `data`, whole or not at all (see `replacing`)."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: Path | str, text: str) -> None:
    """Makes or replaces the file `path` with `text` in UTF-8 (see `replacing`)."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path | str, obj: Any, indent: int | None = 2) -> None:
    """Makes or replaces the JSON file `path` with `obj`, indented (see `replacing`).

    With `indent` None it is one line, which takes a tenth of the time.

    NaN and infinities are written as `NaN` and `Infinity`, which Python's `json` reads back.
    """
    write_text(path, json.dumps(obj, indent=indent) + "\n")


_hash = partial(hashlib.blake2b, digest_size=16)

FILES = "files"
"""The key of a sealed JSON file with digests of files in its folder, and of itself."""


def digest(path: Path) -> str:
    """32 hex digits of blake2b: of a file's content, or of a folder's files with their names.

    Raises ``OSError`` where it cannot be read, and ``ValueError`` where it is not an ordinary file,
    or a link out of its folder.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if not file.is_dir())
        lines = [f"{file.relative_to(path).as_posix()} {digest(file)}" for file in files]
        return digest_of("\n".join(lines).encode("utf-8"))
    check_file(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, _hash).hexdigest()


def digest_of(data: bytes | memoryview) -> str:
    """``digest`` of a file with this content."""
    return _hash(data).hexdigest()


def bytes_of(x: "Tensor") -> memoryview:
    """The values of a tensor, row by row, as bytes; of the host's memory, without a copy."""
    from torch import uint8

    flat = x.detach().cpu().contiguous().reshape(-1)
    # A tensor of one entry, or of none, is contiguous with any stride.
    flat = flat.as_strided(flat.shape, (1,))
    return memoryview(flat.view(uint8).numpy().data)


def write_sealed(
    path: Path, values: Mapping[str, Any], files: Iterable[Path] = (), indent: int | None = 2
) -> None:
    """Writes the JSON object ``values``, with digests of ``files`` of its folder and of itself.

    ``values`` has no key ``FILES``; ``files``: files and folders in the same directory.
        indent: as ``write_json``.
    """
    sealed = {**values, FILES: {file.name: digest(file) for file in files}}
    seal = digest_of(json.dumps(sealed).encode("utf-8"))
    write_json(path, {**sealed, FILES: {**sealed[FILES], path.name: seal}}, indent)


def read_sealed(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``; under ``FILES`` are digests, where ``write_sealed`` wrote it.

    Raises ``OSError`` where the file cannot be read, and ``ValueError`` where it is not a JSON
    object, or holds something else than was written.
    """
    values = read_json(path)
    if not isinstance(values, dict):
        raise ValueError(f"it holds a {type(values).__name__} and not an object")
    if FILES in values:
        if not isinstance(values[FILES], dict):
            raise ValueError(CHANGED)
        others = {name: x for name, x in values[FILES].items() if name != path.name}
        seal = digest_of(json.dumps({**values, FILES: others}).encode("utf-8"))
        if values[FILES].get(path.name) != seal:
            raise ValueError(CHANGED)
    return values


CHANGED = "its content is not what was written"
"""Why a file that has another digest than it had is not used."""


class DamagedFile(ValueError):
    """A file does not hold what was written into it; ``file``, and ``why``."""

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(f"{file.name}: {problem}")
        self.file, self.problem = file, problem


def check_beside(path: Path, values: Mapping[str, Any]) -> None:
    """Looks whether the files in the folder of ``path`` hold what they held when that was sealed.

    ``values``: what ``read_sealed`` read there; without ``FILES`` nothing is looked at.

    Raises ``DamagedFile`` for the first file that is missing, or holds something else.
    """
    for name, recorded in values.get(FILES, {}).items():
        file = path.parent / name
        if Path(name).name != name or name in ("", ".", ".."):
            raise DamagedFile(path, f"it names {name!r}, which is no file beside it")
        try:
            intact = file == path or digest(file) == recorded
        except FileNotFoundError as error:
            raise DamagedFile(file, "it is missing") from error
        except OSError as error:
            raise DamagedFile(file, error.strerror or str(error)) from error
        except ValueError as error:
            raise DamagedFile(file, str(error)) from error
        if not intact:
            raise DamagedFile(file, CHANGED)


def write_parquet(path: Path | str, frame: "pd.DataFrame") -> None:
    """Makes or replaces the parquet file `path` with `frame`, without its index."""
    from pyarrow import default_memory_pool

    with replacing(path) as file:
        frame.to_parquet(file, index=False)
    default_memory_pool().release_unused()  # else it holds some 20 MB of tables that are gone


_CGROUPS, _OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_BOUNDS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files of both versions: a group's bound, what it uses; and what of that the kernel gives back."""

_SHARES = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
"""Files of both versions: the time that a group has in a period, and the period."""


def ram() -> tuple[int, int]:
    """Bytes of memory that this process may have, and how many of them are free.

    The machine's, unless a control group, such as a container's, bounds them closer.
    """
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    kib = {x.split(":")[0]: int(x.split()[1]) for x in lines if x.startswith("Mem")}
    bounds = [(kib["MemTotal"] * 1024, kib["MemAvailable"] * 1024), *_bounds()]
    return min(total for total, _ in bounds), min(left for _, left in bounds)


def _bounds() -> Iterator[tuple[int, int]]:
    """As ``ram``, of each control group that bounds this process's memory."""
    for folder, (bound, used, cached) in product(_groups("memory"), _BOUNDS):
        try:
            total, now = (int((folder / x).read_text(encoding="utf-8")) for x in (bound, used))
            stat = (folder / "memory.stat").read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):  # a group of the other version, or "max": no bound
            continue
        now -= int(dict(line.split() for line in stat)[cached])
        yield total, max(0, total - now)


def _groups(kind: str) -> Iterator[Path]:
    """The folders of this process's control groups of a kind, each with its parents."""
    lines = _OWN_CGROUPS.read_text(encoding="utf-8").splitlines() if _OWN_CGROUPS.exists() else []
    for kinds, path in (line.split(":", 2)[1:] for line in lines):
        if not kinds or kind in kinds.split(","):
            group = _CGROUPS / kinds / path[1:]  # inside a container there may be its parents alone
            yield from (group, *group.parents)


def cores() -> int:
    """How many cores this process may use: those that it is bound to, or fewer.

    A control group, such as a container's, may have a share of time: half a core counts as one.
    """
    bound = hasattr(os, "sched_getaffinity")
    usable = len(os.sched_getaffinity(0)) if bound else os.cpu_count() or 1
    return min([usable, *_shares()])


def _shares() -> Iterator[int]:
    """The cores whose time each control group that bounds it gives to this process."""
    for folder, files in product(_groups("cpu"), _SHARES):
        try:
            texts = [(folder / name).read_text(encoding="utf-8") for name in files]
            quota, period = map(int, " ".join(texts).split())
        except (OSError, ValueError):  # a group of the other version, or "max": no bound
            continue
        if quota > 0 and period > 0:
            yield -(-quota // period)


def own_ram(pid: int) -> int:
    """Bytes of memory that the process ``pid`` shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return 1024 * sum(int(x.split()[1]) for x in lines if x.startswith("Private"))


def sync(path: Path) -> None:
    """Brings a file or a directory to disk.

    A rename is in the directory's own data: without this a power cut may undo it.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

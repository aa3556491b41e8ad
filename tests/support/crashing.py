"""File operations that are counted, and fail, are cut or never come to their end at a given one.

    python -m tests.support.crashing

tries every operation of every command in ``COMMANDS`` in every way, and prints a table.

A fault is in this process: operations of Python on files below a folder, safetensors' included;
SQLite's are its own. After a kill nothing below the folder is changed any more, by no ``finally``
either.
"""

import builtins
import contextlib
import errno
import io
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from fedsim import report
from fedsim.commands.cli import main
from fedsim.runs import checkpoint

FAULTS = ("killed", "cut", "fails", "full", "read-only", "gone")
"""What an operation meets. ``killed``: the process ends before it; ``cut``: half-way through a
write; ``fails``: this one alone, with an I/O error; ``full``: it and every write after it, with a
full disk; ``read-only``: so does every change from it on; ``gone``: the folder is deleted."""

_ERRORS = {"fails": errno.EIO, "full": errno.ENOSPC, "read-only": errno.EROFS}
_GROWS = {"open", "write", "mkdir", "fsync"}
"""What a full disk refuses."""


class Killed(BaseException):
    """The process would have ended here."""


@dataclass
class Files:
    """The operations on files below ``folder``, and the fault that one of them meets.

    Attributes:
        folder: whose files are watched.
        fault: of ``FAULTS``; None: they are only counted.
        at: the number of the operation that meets it, from 1.
        done: what the operations so far were.
    """

    folder: Path
    fault: str | None = None
    at: int = 0
    done: list[str] = field(default_factory=list)

    def meet(self, kind: str, path: Any, half: Callable[[], Any] | None = None) -> None:
        """Counts an operation; raises where it is the one, or comes after a kill.

        ``half``: what does half of a write.
        """
        self.done.append(f"{kind} {os.path.relpath(path, self.folder)}")
        over = len(self.done) - self.at
        if self.fault is None or over < 0:
            return
        if self.fault in ("killed", "cut"):
            if not over and half is not None and self.fault == "cut":
                half()
            raise Killed
        if self.fault == "gone":
            if not over:
                shutil.rmtree(self.folder, ignore_errors=True)
            return
        code = _ERRORS[self.fault]
        if not over or self.fault == "read-only" or (self.fault == "full" and kind in _GROWS):
            raise OSError(code, os.strerror(code), str(path))

    def is_own(self, path: Any) -> bool:
        """Whether a path is below the folder."""
        if not isinstance(path, str | os.PathLike):
            return False
        place = os.path.abspath(os.fspath(path))
        return place == str(self.folder) or place.startswith(f"{self.folder}{os.sep}")


class _Raw(io.FileIO):
    """A file whose writes are counted as they reach the system."""

    def __init__(self, path: Any, mode: str, watched: Files) -> None:
        super().__init__(path, mode)
        self._path, self._watched = path, watched

    def write(self, data: Any) -> int:
        def half() -> None:
            super(_Raw, self).write(bytes(data)[: len(data) // 2])

        self._watched.meet("write", self._path, half)
        return super().write(data) or 0


@contextlib.contextmanager
def watching(watched: Files) -> Iterator[Files]:
    """While the block lasts, operations below the folder go through ``watched``."""
    real = {name: getattr(os, name) for name in ("replace", "unlink", "remove", "rmdir", "mkdir")}
    open_, os_open, fsync, save_file = io.open, os.open, os.fsync, checkpoint.save_file
    pwrite = os.pwrite
    handles: dict[int, Any] = {}

    def opening(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        if not watched.is_own(file) or not {*mode} & {*"wxa"}:
            return open_(file, mode, *given, **named)
        watched.meet("open", file)
        if "+" in mode:  # the lock's, which nobody writes to
            return open_(file, mode, *given, **named)
        raw = io.BufferedWriter(_Raw(file, mode.replace("b", "").replace("t", ""), watched))
        handles[raw.fileno()] = file
        names = {k: v for k, v in named.items() if k in ("encoding", "newline", "errors")}
        return raw if "b" in mode else io.TextIOWrapper(raw, **names)

    def opening_low(path: Any, flags: int, *given: Any, **named: Any) -> int:
        handle = os_open(path, flags, *given, **named)
        handles.pop(handle, None)  # of a file that is closed
        if watched.is_own(path):
            handles[handle] = path
        return int(handle)

    def placing(handle: int, data: Any, offset: int) -> int:
        def half() -> None:
            pwrite(handle, data[: len(data) // 2], offset)

        if handle in handles:
            watched.meet("write", handles[handle], half)
        return pwrite(handle, data, offset)

    def syncing(handle: Any) -> None:
        number = handle if isinstance(handle, int) else handle.fileno()
        if number in handles:
            watched.meet("fsync", handles[number])
        fsync(handle)

    def changing(name: str) -> Callable[..., Any]:
        def change(path: Any, *given: Any, **named: Any) -> Any:
            whole = path
            if named.get("dir_fd") is not None:
                whole = os.path.join(os.readlink(f"/proc/self/fd/{named['dir_fd']}"), path)
            if watched.is_own(whole) and (name == "mkdir" or os.path.lexists(whole)):
                watched.meet(name, whole)
            return real[name](path, *given, **named)

        return change

    def saving(tensors: Any, path: Any, *given: Any) -> None:
        def half() -> None:
            save_file(tensors, path, *given)
            os.truncate(path, os.path.getsize(path) // 2)

        watched.meet("write", path, half)
        save_file(tensors, path, *given)

    with contextlib.ExitStack() as stack:
        def put(place: Any, name: str, value: Any) -> None:
            stack.callback(setattr, place, name, getattr(place, name))
            setattr(place, name, value)

        put(builtins, "open", opening)
        put(io, "open", opening)
        put(os, "open", opening_low)
        put(os, "fsync", syncing)
        put(os, "pwrite", placing)
        put(checkpoint, "save_file", saving)
        for name in real:
            put(os, name, changing(name))
        yield watched


_SWEEP = ("--iterations", "10", "--evaluate-every", "2", "--temporal", "5", "--jobs", "1")
COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "run": [("run", "--iterations", "15", "--temporal", "5", "--checkpoint-every", "1",
             "--keep-payloads", "--clients", "2", "--gradient", "0.05")],
    "extension": [
        ("run", "--iterations", str(n), "--temporal", "5", "--checkpoint-every", "1",
         "--clients", "2", "--gradient", "0.05", "--evaluate-every", "1") for n in (10, 15)
    ],
    "sweep": [("sweep", *_SWEEP, "--gradient", "0.1,0.05", "--checkpoint-every", "1")],
    "search": [("search", "--task", "digits", "--clients", "2", "--iterations", "12", "--budget",
                "20kbit", "--trials", "3", "--jobs", "1", "--seeds", "1", "--methods", "sbc")],
    "report": [("sweep", *_SWEEP, "--gradient", "0.1"), ("report",)],
}  # fmt: skip
"""Commands of which the last meets the faults; those before it are what it finds."""


@dataclass
class Trial:
    """A command, what it finds, and what it leaves where nothing is in its way.

    Attributes:
        name: of ``COMMANDS``.
        base: a folder for this trial alone.
    """

    name: str
    base: Path

    def __post_init__(self) -> None:
        *before, self.command = COMMANDS[self.name]
        for command in before:
            assert typed(command, self.base / "found") == 0
        with watching(Files(self.fresh("whole"))) as counted:
            assert typed(self.command, self.base / "whole") == 0
        self.operations = counted.done
        self.wanted = left(self.base / "whole")

    def fresh(self, name: str) -> Path:
        """A folder as the command finds it."""
        folder = self.base / name
        shutil.rmtree(folder, ignore_errors=True)
        if (self.base / "found").exists():
            shutil.copytree(self.base / "found", folder)
        return folder

    def meets(self, fault: str, at: int) -> None:
        """The command meets a fault at an operation; the same command then ends as undisturbed."""
        out = self.fresh("tried")
        with watching(Files(out, fault, at)) as met, contextlib.suppress(Killed):
            code = typed(self.command, out)
            assert code in (0, 1, 2), code
            assert code or fault not in ("full", "read-only"), f"{fault} at {met.done[at - 1]}"
        if fault == "gone" and (self.base / "found").exists():
            out = self.fresh("tried")  # what was there before is gone with the folder
        assert typed(self.command, out) == 0, f"{fault} at {met.done[at - 1]}"
        found = left(out)
        names = found.keys() | self.wanted.keys()
        differ = [name for name in names if found.get(name) != self.wanted.get(name)]
        assert not differ, f"{fault} at {met.done[at - 1]}: {differ} differ"
        hidden = [path.name for path in out.rglob(".*") if path.name not in _OTHERWISE]
        assert not hidden, f"{fault} at {met.done[at - 1]}: {hidden}"


def typed(command: tuple[str, ...], out: Path) -> int:
    """A command's exit code; page and figures, which take seconds, are only written by a report."""
    page = report.written
    if command[0] != "report":
        report.written = lambda _, folder, *more: Path(folder) / "report.html"
    place = (str(out),) if command[0] == "report" else ("--out", str(out))
    try:
        with (
            open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):  # fmt: skip
            return main([*command, *place])
    finally:
        report.written = page


_OTHERWISE = (
    ".lock", "environment.json", "summary.json", "values.json", "report.html", "search.db",
)  # fmt: skip
"""Files with times or with a channel's number, and a lock that locks nothing."""


def left(folder: Path) -> dict[str, Any]:
    """What a command has left, by file, without its times."""
    import pandas as pd

    found: dict[str, Any] = {}
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if file.is_dir() or file.name in _OTHERWISE:
            continue
        if file.suffix == ".parquet":
            frame = pd.read_parquet(file)
        elif file.suffix == ".csv":
            frame = pd.read_csv(file)
        elif file.suffix == ".safetensors":  # no two runs have the same channel
            tensors = load_file(file)
            kept = {k: x for k, x in tensors.items() if not k.endswith("pending/channel")}
            found[name] = {k: x.numpy().tobytes() for k, x in kept.items()}
            continue
        else:
            found[name] = file.read_bytes() if file.suffix in (".toml", ".bin") else b""
            continue
        timed = [c for c in frame.columns if str(c).endswith("seconds")]
        found[name] = frame.drop(columns=timed).to_json(double_precision=15)
    return found


_STEPS = {"killed": 1, "cut": 1, "fails": 1, "full": 7, "read-only": 7, "gone": 7}
"""Of how many operations one is tried: what stays as it is from one on is told by some."""


def tries(operations: list[str]) -> Iterator[tuple[str, int]]:
    """Every fault with every operation that it can meet; only a write can be cut."""
    for fault, step in _STEPS.items():
        for at in range(1, len(operations) + 1, step):
            if fault != "cut" or operations[at - 1].startswith("write"):
                yield fault, at


if __name__ == "__main__":
    print("| command | operations | killed | cut | fails | full | read-only | gone |")
    for wanted in sys.argv[1:] or COMMANDS:
        with tempfile.TemporaryDirectory(prefix="crash-") as place:
            trial, told = Trial(wanted, Path(place)), Counter[str]()
            for fault, at in tries(trial.operations):
                trial.meets(fault, at)
                told[fault] += 1
        cells = [wanted, len(trial.operations), *(told[fault] for fault in FAULTS)]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)

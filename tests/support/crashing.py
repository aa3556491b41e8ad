"""File operations that are counted, and fail, are cut or never come to their end at a given one.

    python -m tests.support.crashing

tries every operation of every command in ``COMMANDS`` in every way, prints a table, and writes it
to ``docs/crashes.csv``. ``--minutes 20 run sweep`` ends after so long, wherever it is: points are
in a drawn order, and ``--on`` begins where the last call ended. ``TMPDIR=/dev/shm`` spares disks.

Operations are Python's on files below a folder, safetensors' included, and SQLite's by statement. A
kill leaves what is on disk before an operation, or when half of it is written: one undisturbed
command gives the folder at each of its operations. Other faults each have a command of their own.
"""

import argparse
import builtins
import contextlib
import csv
import errno
import io
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from fedsim.commands.cli import main
from fedsim.ground.errors import RunFailed, UsageError
from fedsim.ground.files import digest
from fedsim.results.schema import read_summary
from fedsim.runs import checkpoint
from fedsim.show import report
from tests.support.atnodes import at_nodes
from tests.support.runs import small

KILLS = ("killed", "cut")
FAULTS = ("killed", "cut", "fails", "full", "read-only", "gone")
"""What an operation meets. ``killed``: the process ends before it; ``cut``: half-way through a
write; ``fails``: this one alone, with an I/O error; ``full``: every write from it on, with a full
disk; ``read-only``: so does every change from it on; ``gone``: the folder is deleted."""

_ERRORS = {"fails": errno.EIO, "full": errno.ENOSPC, "read-only": errno.EROFS}
_GROWS = {"open", "write", "mkdir", "fsync", "sql"}
"""What a full disk refuses."""

Half = Callable[[Any], Any]
"""Does half of a write, into the file that it is given."""


@dataclass
class Files:
    """The operations on files below ``folder``, and the fault that one of them meets.

    Attributes:
        folder: whose files are watched.
        fault: of ``FAULTS``, but no kill; None: they are only counted.
        at: the number of the operation that meets it, from 1.
        done: what the operations so far were.
        refused: whether one of them raised.
        look: called before each operation with its number, its file, and what does half of it.
    """

    folder: Path
    fault: str | None = None
    at: int = 0
    done: list[str] = field(default_factory=list)
    refused: bool = False
    look: Callable[[int, Path, Half | None], None] | None = None

    def meet(self, kind: str, path: Any, half: Half | None = None) -> None:
        """Counts an operation; raises where it is the one. ``half``: does half of a write."""
        inside = os.path.relpath(path, self.folder)
        self.done.append(f"{kind} {inside}")
        if self.look is not None:
            self.look(len(self.done), Path(inside), half)
        over = len(self.done) - self.at
        if self.fault is None or over < 0:
            return
        if self.fault == "gone":
            if not over:
                shutil.rmtree(self.folder, ignore_errors=True)
            return
        code = _ERRORS[self.fault]
        refuses = {"fails": not over, "read-only": True, "full": kind in _GROWS}
        if refuses[self.fault]:
            self.refused = True
            raise OSError(code, os.strerror(code), str(path))

    def is_own(self, path: Any) -> bool:
        """Whether a path is below the folder."""
        if not isinstance(path, str | os.PathLike):
            return False
        place = os.path.abspath(os.fspath(path))
        return place == str(self.folder) or place.startswith(f"{self.folder}{os.sep}")


class _Raw(io.FileIO):
    """A file whose writes are counted as they reach the system."""

    def __init__(self, file: Any, mode: str, path: Any, watched: Files) -> None:
        super().__init__(file, mode)
        self._path, self._watched = path, watched

    def write(self, data: Any) -> int:
        def half(place: Any) -> None:
            with open(place, "r+b") as file:
                file.seek(self.tell())
                file.write(bytes(data)[: len(data) // 2])

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
        there = handles.get(file) if isinstance(file, int) else file
        if not watched.is_own(there) or not {*mode} & {*"wxa"}:
            return open_(file, mode, *given, **named)
        if there is file:
            watched.meet("open", file)
        if "+" in mode:  # the lock's, which nobody writes to
            return open_(file, mode, *given, **named)
        raw = io.BufferedWriter(_Raw(file, mode.replace("b", "").replace("t", ""), there, watched))
        handles[raw.fileno()] = there
        names = {k: v for k, v in named.items() if k in ("encoding", "newline", "errors")}
        return raw if "b" in mode else io.TextIOWrapper(raw, **names)

    def opening_low(path: Any, flags: int, *given: Any, **named: Any) -> int:
        if watched.is_own(path) and flags & os.O_CREAT:
            watched.meet("open", path)
        handle = os_open(path, flags, *given, **named)
        handles.pop(handle, None)  # of a file that is closed
        if watched.is_own(path):
            handles[handle] = path
        return int(handle)

    def placing(handle: int, data: Any, offset: int) -> int:
        def half(place: Any) -> None:
            with open(place, "r+b") as file:
                file.seek(offset)
                file.write(data[: len(data) // 2])

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
        def half(place: Any) -> None:
            save_file(tensors, place, *given)
            os.truncate(place, os.path.getsize(place) // 2)

        watched.meet("write", path, half)
        save_file(tensors, path, *given)

    def stating(_: Any, __: Any, statement: str, *___: Any) -> None:
        if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA")):
            sql(statement)

    def sql(statement: Any) -> None:
        try:
            watched.meet("sql", watched.folder / "study.db")
        except OSError as error:  # as SQLite says it, and SQLAlchemy hands it on
            told = sqlite3.OperationalError(error.strerror)
            raise OperationalError(str(statement), {}, told) from told

    with contextlib.ExitStack() as stack:
        for name, told in (("before_cursor_execute", stating), ("commit", sql)):
            event.listen(Engine, name, told)
            stack.callback(event.remove, Engine, name, told)

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


_SWEEP = (
    "--iterations",
    "4",
    "--evaluate-every",
    "2",
    "--temporal",
    "2",
    "--jobs",
    "1",
    "--clients",
    "2",
)


def deployed(out: Path) -> int:
    """A run whose clients keep their memory in folders, as SuperNodes do: a command's exit code."""
    config = small(keep_payloads=True, downlink="sbc(0.05)", cohort=2, clients=3, iterations=15)
    try:
        at_nodes(config, out)
    except (UsageError, RunFailed, OSError):
        return 1
    shutil.rmtree(out / "nodes", ignore_errors=True)  # as ``fedsim deploy`` does
    return 0


Command = tuple[str, ...] | Callable[[Path], int]
COMMANDS: dict[str, list[Command]] = {
    "run": [("run", "--iterations", "15", "--temporal", "5", "--checkpoint-every", "1",
             "--keep-payloads", "--clients", "2", "--gradient", "0.05")],
    "extension": [
        ("run", "--iterations", str(n), "--temporal", "5", "--checkpoint-every", "1",
         "--clients", "2", "--gradient", "0.05", "--evaluate-every", "1") for n in (10, 15)
    ],
    "sweep": [("sweep", *_SWEEP, "--gradient", "0.1,0.05", "--checkpoint-every", "1")],
    "search": [("search", "--task", "digits", "--clients", "2", "--iterations", "6", "--budget",
                "20kbit", "--trials", "2", "--jobs", "1", "--seeds", "1", "--methods", "sbc",
                "--checkpoint-every", "100")],  # else a slow machine has some
    "report": [("sweep", *_SWEEP, "--gradient", "0.1"), ("report",)],
    "state-dir": [deployed],
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
        if fault in KILLS:
            for _, _, out in self.stopped([(fault, at)]):
                self.goes_on(out, fault, at)
            return
        out = self.fresh("tried")
        with watching(Files(out, fault, at)) as met:
            code = typed(self.command, out)
        assert code in (0, 1, 2), code
        assert code or fault == "fails" or not met.refused, f"{fault} at {met.done[at - 1]}"
        if fault == "gone" and (self.base / "found").exists():
            out = self.fresh("tried")  # what was there before is gone with the folder
        if fault == "gone" and self.name == "search" and _runs(out):
            assert typed(self.command, out) == 0  # it takes a run that is there as a trial
            return
        self.goes_on(out, fault, at)

    def stopped(self, points: Collection[tuple[str, int]]) -> list[tuple[str, int, Path]]:
        """Of one undisturbed command: the folder as a kill at each of these points leaves it."""
        found, wanted = [], {*points}

        def look(at: int, inside: Path, half: Half | None) -> None:
            for fault in KILLS:
                if (fault, at) in wanted:
                    place = self.base / f"{fault}-{at}"
                    shutil.copytree(out, place) if out.exists() else place.mkdir()
                    if fault == "cut" and half is not None:
                        half(place / inside)
                    found.append((fault, at, place))

        out = self.fresh("tried")
        with watching(Files(out, look=look)):
            assert typed(self.command, out) == 0
        return found

    def goes_on(self, out: Path, fault: str, at: int) -> None:
        """The same command, after a fault, ends as one that met none."""
        where = f"{fault} at {self.operations[at - 1]} ({at})"
        assert typed(self.command, out) == 0, where
        found = left(out)
        names = found.keys() | self.wanted.keys()
        differ = [name for name in names if found.get(name) != self.wanted.get(name)]
        assert not differ, f"{where}: {differ} differ"
        hidden = [path.name for path in out.rglob(".*") if path.name not in _OTHERWISE]
        assert not hidden, f"{where}: {hidden}"

    def failure(self, go: Callable[..., None], *given: Any) -> str:
        """What was wrong; empty: nothing."""
        try:
            go(*given)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def all(self, points: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int, str]]:
        """Each point, and how the command then failed to go on; empty where it did go on."""
        known = dict[str, str]()
        for first in range(0, len(points), _AT_ONCE):
            some = points[first : first + _AT_ONCE]
            for fault, at, out in self.stopped(some):
                inside = sorted(path.relative_to(out) for path in out.rglob("*"))
                state = f"{digest(out)} {inside}"
                if state not in known:  # an fsync changes nothing that a kill would leave
                    known[state] = self.failure(self.goes_on, out, fault, at)
                shutil.rmtree(out, ignore_errors=True)
                yield fault, at, known[state]
            for fault, at in some:
                if fault not in KILLS:
                    yield fault, at, self.failure(self.meets, fault, at)


def typed(command: Command, out: Path) -> int:
    """A command's exit code; page and figures, which take seconds, are only written by a report."""
    if callable(command):
        return command(out)
    page = report.written_page
    if command[0] != "report":
        report.written_page = lambda _, folder, *more: Path(folder) / "report.html"
    place = (str(out),) if command[0] == "report" else ("--out", str(out))
    try:
        with (
            open(os.devnull, "w") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            return main([*command, *place])
    finally:
        report.written_page = page


def _runs(out: Path) -> bool:
    """Whether a search's folder holds a run that is done."""
    return any(read_summary(x.parent)["status"] == "done" for x in out.glob("cells/*/summary.json"))


_OTHERWISE = (".lock", "environment.json", "summary.json", "values.json", "report.html", "study.db")
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


_AT_ONCE = 25
"""How many folders lie beside each other."""

CSV = Path(__file__).parents[2] / "docs" / "crashes.csv"


def count(
    name: str, until: float, seed: int, before: Sequence[dict[str, str]] = ()
) -> list[dict[str, Any]]:
    """A row per fault: how many points the command has, how many were tried and what was lost.

    Args:
        name: of ``COMMANDS``.
        until: when to end, by ``time.monotonic()``.
        seed: of the order of the points.
        before: rows of the points that were tried before, with the same seed; these are added.
    """
    with tempfile.TemporaryDirectory(prefix="crash-") as place:
        trial = Trial(name, Path(place))
        points = [*tries(trial.operations)]
        random.Random(seed).shuffle(points)
        assert all(int(row["operations"]) == len(trial.operations) for row in before)
        tried, lost = (
            [row["fault"] for row in before for _ in range(int(row[what]))]
            for what in ("tried", "lost")
        )
        for fault, _, why in trial.all(points[len(tried) :]):
            tried.append(fault)
            if why:
                lost.append(fault)
                print(f"{name}: {why}", file=sys.stderr, flush=True)
            if time.monotonic() > until:
                break
    faults = [fault for fault, _ in points]
    return [
        {
            "command": name,
            "operations": len(trial.operations),
            "fault": fault,
            "points": faults.count(fault),
            "tried": tried.count(fault),
            "lost": lost.count(fault),
        }
        for fault in FAULTS
    ]


def table(argv: list[str]) -> int:
    """Tries, prints, and puts the rows of these commands into the file; 1: something was lost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=", ".join(COMMANDS))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for each command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", type=Path, default=CSV)
    parser.add_argument("--on", action="store_true", help="from where the file's rows of it end")
    given, lost = parser.parse_args(argv), 0
    for name in given.commands or COMMANDS:
        before = []
        if given.on:
            with given.csv.open(newline="") as file:
                before = [row for row in csv.DictReader(file) if row["command"] == name]
        rows = count(name, time.monotonic() + 60 * given.minutes, given.seed, before)
        cells = [f"{row['fault']} {row['tried']} of {row['points']}" for row in rows]
        print(f"{name}, {rows[0]['operations']} operations: {', '.join(cells)}", flush=True)
        lost += sum(row["lost"] for row in rows)
        if given.csv.exists():
            with given.csv.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if row["command"] != name] + rows
        with given.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(table(sys.argv[1:]))

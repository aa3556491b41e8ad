"""Ctrl-C, SIGTERM and SIGHUP: how a command ends, and its message on the results that it keeps."""

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from compressors.grammar import printable

SIGNALS: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
if sys.platform != "win32":
    SIGNALS += (signal.SIGHUP,)

SIGNAL_STATUSES = tuple(128 + number for number in SIGNALS)
"""The exit statuses of commands that a signal has stopped: 130, 143 and 129."""


class Stop:
    """What has stopped a command, and which results folder it was at.

    Example:
        >>> Stop().status
        130
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        """The folder of the command's runs; None: it has none, or none yet."""
        self._by: signal.Signals | None = None

    @property
    def status(self) -> int:
        """The exit status: 128 and the signal's number."""
        return 128 + (self._by or signal.SIGINT)

    @contextmanager
    def answered(self) -> Iterator[None]:
        """Inside, a signal is answered at once, before workers and threads end, which takes time.

        It then raises ``KeyboardInterrupt``. A signal that is ignored from outside stays ignored,
        as SIGHUP is under ``nohup``.
        """
        ours = threading.current_thread() is threading.main_thread()
        before = {
            number: signal.signal(number, self._answer)
            for number in SIGNALS
            if ours and (number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN)
        }
        try:
            yield
        except KeyboardInterrupt:
            if self._by is None:  # raised without a signal
                self._answer(signal.SIGINT)
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _answer(self, number: int, *_: object) -> NoReturn:
        if self._by is None:
            self._by = signal.Signals(number)
            for stream in (1, 2):
                discard_unread(stream)
            message = f"stopped by {self._by.name}"
            if self.folder is not None:
                message += f"; the same command goes on{resume_note(self.folder)}"
            with suppress(OSError):
                print(printable(f"fedsim: {message}"), file=sys.stderr, flush=True)
        raise KeyboardInterrupt


def discard_unread(stream: int) -> bool:
    """Whether output goes to a terminal that is gone, or to a program that has ended.

    Further output there is then discarded.
    """
    poll = select.poll()
    poll.register(stream, 0)
    unread = any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
    if unread:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    return unread


def resume_note(folder: Path) -> str:
    """What a results folder keeps of its runs, and so where the same command goes on.

    Example:
        >>> resume_note(Path("/nowhere"))
        ' (/nowhere keeps no finished run and no checkpoint)'
    """
    if (folder / "config.toml").exists():
        if _done(folder):
            return f" ({folder} keeps the finished run)"
        number = _round(folder)
        what = f"round {number}" if number else "no checkpoint"
        return f" with round {number + 1} ({folder} keeps {what})"
    runs = [*folder.glob("cells/*"), *folder.glob("*/cells/*")]
    under_way = [run for run in runs if not _done(run)]
    finished, checkpoints = len(runs) - len(under_way), sum(_round(run) > 0 for run in under_way)
    return (
        f" ({folder} keeps {_counted(finished, 'finished run')} and "
        f"{_counted(checkpoints, 'checkpoint')})"
    )


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' if number > 1 else ''}"


def _done(run: Path) -> bool:
    """Whether a run has ended well; one that failed is done again."""
    try:
        summary: Any = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(summary, dict) and summary.get("status") == "done"


def _round(run: Path) -> int:
    """The round of a run's last checkpoint; 0: it has none, or one before its first round."""
    names = (place.name.rpartition("-")[2] for place in run.glob("checkpoint-*"))
    return max((int(name) for name in names if name.isdecimal()), default=0)

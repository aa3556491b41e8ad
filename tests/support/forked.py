"""A Python process that has imported fedsim, and forks for every script that it is asked to run.

A script is the main module of a process of its own, as with ``python -c``, and begins at once.
"""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tests.support.markdown import ROOT


class Ended(NamedTuple):
    """A script's exit code, and all that it printed."""

    returncode: int
    output: str


class Forks:
    """A context in which scripts run; ``folder`` takes their output."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.log = folder / "output.txt"
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            env=dict(environment) | {"PYTHONPATH": str(ROOT)},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> "Forks":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.communicate()

    def run(self, code: str, folder: Path) -> Ended:
        """Runs ``code`` in ``folder``."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps([code, str(folder), str(self.log)]), file=self.process.stdin, flush=True)
        return Ended(int(self.process.stdout.readline()), self.log.read_text(errors="replace"))


def exit_code(work: Callable[[], Any]) -> int:
    """Does ``work`` in a fork of this process; returns its exit code, below 0 the signal."""
    if (child := os.fork()) == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def execute(code: str, folder: str, log: str) -> int:
    """The child's part: its exit code."""
    os.chdir(folder)
    with open(log, "w") as output:
        for standard in (1, 2):
            os.dup2(output.fileno(), standard)
    main = sys.modules["__main__"] = ModuleType("__main__")
    sys.argv, sys.path[0] = ["-c"], ""
    try:
        exec(compile(code, "<string>", "exec"), vars(main))
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
    return 0


def serve() -> None:
    """Runs what each line of the standard input asks for, and prints the exit code."""
    import fedsim.commands.cli
    import fedsim.show.report  # noqa: F401

    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            os._exit(execute(*json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()

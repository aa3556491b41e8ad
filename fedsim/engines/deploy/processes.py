"""Processes of one deployment: started in groups of their own, and stopped in any case.

A group has a process and all that it starts in turn, and ends with this process however that ends.
Only groups that were started here are ever signalled.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedsim.ground.errors import RunFailed

_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.05
# A shell of the group reads a pipe of this process. Where this process is killed the pipe ends, and
# that shell kills the group. The other shell becomes the program.
_WATCHED = 'exec 3<&0; { read -r _ <&3; kill -KILL 0; } & exec "$@" </dev/null 3<&-'


class Group:
    """A command in a process group of its own, whose output is added to the file ``log``.

    ``name``: what messages call it; ``environment``: all of its variables. Raises ``RunFailed``
    where the program cannot be started.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        self.name, self.log, self._over = name, log, False
        self._start = log.stat().st_size if log.exists() else 0
        if shutil.which(command[0], path=environment.get("PATH")) is None:
            raise RunFailed(f"{name} cannot be started ({command[0]}: not found or not executable)")
        try:
            with log.open("ab") as output:
                self.process = subprocess.Popen(
                    ["sh", "-c", _WATCHED, "sh", *command],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(environment),
                    start_new_session=True,
                )
        except OSError as error:
            raise RunFailed(f"{name} cannot be started ({error})") from error
        self.group = self.process.pid

    @property
    def alive(self) -> bool:
        """Whether the command still runs."""
        return self.process.poll() is None

    def has_printed(self, text: str) -> bool:
        """Whether its output since its start has ``text``."""
        return text in self.output()

    def output(self) -> str:
        """Its output since its start."""
        with self.log.open("rb") as file:
            file.seek(self._start)
            return file.read().decode(errors="replace")

    def end(self) -> str:
        """How it ended, and its last lines, where a signal has not cut them off."""
        code = self.process.returncode
        if code is not None and code < 0:
            return f"{self.name} was killed ({signal.Signals(-code).name}); its log: {self.log}"
        return f"{self.name} ended (exit code {code}):{self.last_lines()}"

    def last_lines(self, count: int = 8) -> str:
        """The last lines of its output that say anything, indented; and where all of them are."""
        lines = [line for line in self.output().splitlines() if line.strip()][-count:]
        return "\n".join(["", *(f"    {line}" for line in lines), f"  all of it: {self.log}"])

    def signal(self, sign: signal.Signals) -> None:
        """Sends a signal to the whole group, if any of it is left."""
        if self._over:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, sign)

    def stop(self) -> None:
        """Asks the group to end, and kills what does not within some seconds."""
        stop_all([self])

    def kill(self) -> None:
        """Kills the group at once, as a machine that loses its power."""
        self.signal(signal.SIGKILL)
        self.join()

    def join(self) -> None:
        """Waits until all of the group has ended; kills what has not within some seconds.

        Where nobody reaps orphans they stay listed although they are dead: they are not waited for.
        """
        for sign in (signal.SIGKILL, None):
            until = time.monotonic() + _GRACE_SECONDS
            while not self.ended() and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)
            if sign is not None and not self._over:
                self.signal(sign)
        self._over = True  # its number may be another group's from now on

    def ended(self) -> bool:
        """Whether nothing of the group is left: what outlives the command is killed."""
        if self.process.poll() is not None and self.process.stdin is not None:
            self.process.stdin.close()
        if not self._over:
            try:
                os.killpg(self.group, 0)
            except (ProcessLookupError, PermissionError):
                self._over = True
        return self._over


def stop_all(groups: Sequence[Group]) -> None:
    """Stops groups, all at the same time."""
    for group in groups:
        if not group.ended():
            group.signal(signal.SIGTERM)
    for group in groups:
        group.join()

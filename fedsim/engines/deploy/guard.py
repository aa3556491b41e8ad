"""Ends process groups when the process that started them is gone, even where it was killed.

Runs as a script of its own and imports nothing of fedsim. On stdin, a line each: ``+GROUP`` when a
group has started, ``-GROUP`` when it has ended. The pipe ends with its writer; the groups that are
left are then killed, and the folder that is given as an argument is removed.
"""

import os
import shutil
import signal
import sys
import time

_TRIES, _PAUSE_SECONDS = 50, 0.1


def guard() -> None:
    """Reads lines until the writer is gone, then kills what is left."""
    left: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            left.add(group)
        else:
            left.discard(group)
    for group in left:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:  # it has ended by itself
            continue
    for folder in sys.argv[1:]:
        for _ in range(_TRIES):  # what was killed may still write into it for a moment
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break
            time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    guard()

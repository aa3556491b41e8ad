"""Ends process groups when the process that started them is gone, even where it was killed.

Runs as a script of its own and imports nothing of fedsim. On stdin, a line each: ``+GROUP`` when a
group has started, ``-GROUP`` when it has ended. The pipe ends with its writer; the groups that are
left are then killed.
"""

import os
import signal
import sys


def main() -> None:
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


if __name__ == "__main__":
    main()

"""Stands where Flower looks for ``flwr-clientapp``; ``fedsim.engines.deploy.warm`` does the work.

Runs as a script of its own and imports nothing of fedsim. The first argument is the socket of that
process; the others are those of ``flwr-clientapp``.
"""

import json
import os
import socket
import sys
import time
from contextlib import chdir

_PATIENCE_SECONDS = 120.0


def main() -> None:
    """Hands over arguments, environment and output, and waits until the work is done."""
    path, *arguments = sys.argv[1:]
    told = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    with _connected(path) as connection:
        socket.send_fds(connection, [json.dumps(told).encode() + b"\n"], [1, 2])
        while connection.recv(1):  # nothing is sent: the end of the process ends the wait
            pass


def _connected(path: str) -> socket.socket:
    """A connection to the process, which imports for some seconds before it listens."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            with chdir(os.path.dirname(path)):  # as it was bound: its path may be long
                connection.connect(os.path.basename(path))
            return connection
        except OSError:
            connection.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    main()

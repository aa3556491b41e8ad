"""A process that has imported Flower's ClientApp runner and fedsim, and forks for every message.

Flower starts the program ``flwr-clientapp`` for each message, which imports for seconds. Here a
program of that name (``fedsim.engines.deploy.shim``) asks this process, which forks; the child runs
Flower's own ``flwr-clientapp``. Each message still has a process of its own, which remembers
nothing. It ends at once when the program that asked is killed, as when a SuperNode's group is.

    python -m fedsim.engines.deploy.warm SOCKET MODULE

MODULE is what the messages' app will import.
"""

import json
import os
import signal
import socket
import sys
import threading
from contextlib import chdir
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

_PROGRAM = "flwr-clientapp"


def main() -> None:
    """Imports what a message needs, then listens until it is stopped."""
    (program,) = entry_points(group="console_scripts", name=_PROGRAM)
    run = program.load()
    import_module(sys.argv[2])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    with listening(sys.argv[1]) as server:
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _work(connection, run)
            connection.close()


def listening(path: str) -> socket.socket:
    """A socket at ``path``, bound from inside its folder: a bound path has 107 bytes at most.

    Args:
        path: absolute, of any length; its folder exists.
    """
    server = socket.socket(socket.AF_UNIX)
    with chdir(os.path.dirname(path)):
        server.bind(os.path.basename(path))
    server.listen(64)
    return server


def _work(connection: socket.socket, run: Any) -> None:
    """The child: becomes the program that was asked for. Never returns."""
    told, files, _, _ = socket.recv_fds(connection, 1 << 16, 2)
    while not told.endswith(b"\n"):
        told += connection.recv(1 << 16)
    for file, standard in zip(files, (1, 2), strict=True):
        os.dup2(file, standard)
        os.close(file)
    asked = json.loads(told)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv = [_PROGRAM, *asked["arguments"]]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    run()
    sys.exit()


def _end_with(connection: socket.socket) -> None:
    """Ends this process when the one that asked is gone."""
    while connection.recv(1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()

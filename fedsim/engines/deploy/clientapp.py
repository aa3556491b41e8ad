"""A process that forks for every message, in place of Flower's program ``flwr-clientapp``.

Flower starts the program ``flwr-clientapp`` for each message, which imports for seconds. Here one
process has imported Flower's runner and fedsim, and listens. The program ``flwr-clientapp`` is a
script that imports nothing of fedsim. It asks the process, which forks, and the child runs
Flower's own ``flwr-clientapp``. Each message still has a process of its own, which remembers
nothing. It ends at once when the asking program is killed, as when a SuperNode's group is.

    python -m fedsim.engines.deploy.clientapp SOCKET MODULE    # MODULE: what the app will import
    python FILE ask SOCKET ...                                 # with the program's own arguments
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import chdir

_PROGRAM = "flwr-clientapp"
_PATIENCE_SECONDS = 120.0


def ask(path: str, arguments: list[str]) -> None:
    """Hands arguments, environment and output to the process, and waits until the work is done.

    The process imports for some seconds before it listens.
    """
    request = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            with chdir(os.path.dirname(path)):  # as it was bound: its path may be long
                connection.connect(os.path.basename(path))
            break
        except OSError:
            connection.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
    with connection:
        socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], [1, 2])
        while connection.recv(1):  # nothing is sent: the end of the process ends the wait
            pass


def listening(path: str) -> socket.socket:
    """A socket at an absolute path, bound in its folder: a bound path has 107 bytes at most."""
    server = socket.socket(socket.AF_UNIX)
    with chdir(os.path.dirname(path)):
        server.bind(os.path.basename(path))
    server.listen(64)
    return server


def serve_messages(path: str, module: str) -> None:
    """Imports what a message needs, then forks for each until it is stopped."""
    from importlib import import_module
    from importlib.metadata import entry_points

    (program,) = entry_points(group="console_scripts", name=_PROGRAM)
    run = program.load()
    import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    with listening(path) as server:
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                become(connection)
                run()
                sys.exit()
            connection.close()


def become(connection: socket.socket) -> None:
    """Gives this process, a child, what the program had that asked; it ends when that is gone."""
    request, files, _, _ = socket.recv_fds(connection, 1 << 16, 2)
    while not request.endswith(b"\n"):
        if not (more := connection.recv(1 << 16)):
            sys.exit()  # the program that asked is gone
        request += more
    for file, standard in zip(files, (1, 2), strict=True):
        os.dup2(file, standard)
        os.close(file)
    settings = json.loads(request)
    os.environ.clear()
    os.environ.update(settings["environment"])
    os.chdir(settings["folder"])
    sys.argv = [_PROGRAM, *settings["arguments"]]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def end_with() -> None:
        while connection.recv(1):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=end_with, daemon=True).start()


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2], sys.argv[3:])
    else:
        serve_messages(*sys.argv[1:])

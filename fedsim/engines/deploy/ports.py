"""Ports on the loopback interface: free ones, and a check of one that the user names."""

import errno
import socket
from contextlib import ExitStack

from fedsim.ground.errors import UsageError

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """So many different ports on which nothing listens.

    Another program may take one before it is used: what then binds it fails and says so.
    """
    with ExitStack() as bound:  # all are bound until the last is: no port comes twice
        sockets = [bound.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind((LOOPBACK, 0))
        return [sock.getsockname()[1] for sock in sockets]


def check_port(port: int, flag: str) -> None:
    """Refuses a port on which nothing can listen; ``flag``: what the message calls it.

    Raises ``UsageError`` where the number is not a port's, or where something has the port already.

    Example:
        >>> check_port(70000, "--port")
        Traceback (most recent call last):
        fedsim.ground.errors.UsageError: --port is 70000: a port is a number from 1 to 65535
    """
    if not 0 < port < 65536:
        raise UsageError(f"{flag} is {port}: a port is a number from 1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            text = "another process listens there" if taken else str(error.strerror)
            raise UsageError(
                f"{flag} is {port}: {text}; choose another port, or leave {flag} out for a free one"
            ) from error

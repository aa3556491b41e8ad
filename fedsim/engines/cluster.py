"""Ray clusters: a new one, even if the machine runs others, or one that the user names."""

import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

from fedsim.ground.errors import UsageError

_KNOCK_SECONDS = 10.0
_LONGEST = 36
"""Bytes of a temporary folder's path that leave room, of the 107 that the system allows a socket's
path, for what Ray adds: its session's name and that of the socket."""


def connect(cores: int, address: str | None, flag: str) -> None:
    """Starts a cluster on this machine, or joins the one at ``address``, until ``ray.shutdown``.

    Its workers find the modules that this process finds. ``cores``: of the cluster that is started;
    ``flag``: the setting that asked for Ray, with its value, for messages.

    Raises ``UsageError`` where this process has a cluster already, or none answers at ``address``.
    """
    import ray

    if ray.is_initialized():
        raise UsageError(
            f"{flag}: this process has a Ray cluster already; call ray.shutdown() first"
        )
    folders = [path for path in (*sys.path, os.environ.get("PYTHONPATH", "")) if path]
    quiet: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "runtime_env": {"env_vars": {"PYTHONPATH": os.pathsep.join(folders)}},
    }
    with _answer_kept():
        if address is None:  # "local": a new cluster, even if this machine runs others
            new: dict[str, Any] = {"num_cpus": cores, "include_dashboard": False, **_folders()}
            ray.init(address="local", **new, **quiet)
            return
        host, _, port = address.removeprefix("ray://").rpartition(":")
        try:
            if host and port.isdigit():  # where nothing listens Ray itself would try for minutes
                socket.create_connection((host, int(port)), timeout=_KNOCK_SECONDS).close()
            ray.init(address=address, **quiet)
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(
                f"--ray-address is {address!r}: no Ray cluster there ({error})"
            ) from error


@contextmanager
def _answer_kept() -> Iterator[None]:
    """Leaves a program's answer to SIGTERM in place, for which Ray has one of its own."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before) and current_thread() is main_thread():
            signal.signal(signal.SIGTERM, before)


def _folders() -> dict[str, Any]:
    """Where Ray's sockets and its large objects lie, where the temporary folder's path is too long.

    Clusters of machines give each job a folder of its own, by ``TMPDIR``: objects stay in it.
    """
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    if len(os.fsencode(folder)) <= _LONGEST:
        return {}
    return {"_temp_dir": f"/tmp/ray-{os.getuid()}", "object_spilling_directory": folder}

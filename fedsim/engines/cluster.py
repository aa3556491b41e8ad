"""Ray clusters: one of our own, whatever others the machine runs, or one that the user names."""

import logging
import os
import socket
import sys
from typing import Any

from fedsim.ground.errors import UsageError

_KNOCK_SECONDS = 10.0


def connect(cores: int, address: str | None, flag: str) -> None:
    """Starts a cluster on this machine, or joins the one at ``address``, until ``ray.shutdown``.

    Its workers find the modules that this process finds.

    Args:
        cores: of the cluster that is started.
        address: of a running cluster, such as ``10.0.0.1:6379``; None: one is started.
        flag: the setting that asked for Ray, with its value, for messages.

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
    if address is None:  # "local": a new cluster, whatever other clusters this machine runs
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdigit():  # where nothing listens Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=_KNOCK_SECONDS).close()
        ray.init(address=address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"--ray-address is {address!r}: no Ray cluster there ({error})") from error

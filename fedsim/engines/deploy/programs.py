"""Flower's programs: where they are, what they are told, and the environment in which they run."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import fedsim
from fedsim.engines.deploy import bundle, shim
from fedsim.engines.deploy.certificates import Certificates
from fedsim.engines.deploy.ports import LOOPBACK
from fedsim.ground.errors import RunFailed

_ROOT = Path(fedsim.__file__).resolve().parent.parent
_POLL_SECONDS = 0.2


def environment(home: Path, first: Path | None = None) -> dict[str, str]:
    """The variables of a Flower process: a home of its own, this Python's programs, this fedsim.

    Args:
        home: where Flower keeps its settings and the apps that it was sent.
        first: a folder whose programs stand before all others.
    """
    folders = [*([str(first)] if first else []), str(Path(sys.executable).parent)]
    programs = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    modules = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",  # every process has this environment
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": str(_POLL_SECONDS),
        "PATH": programs,
        "PYTHONPATH": modules,
        "PYTHONUNBUFFERED": "1",  # logs and progress as they come
    }


def find(name: str) -> str:
    """A program of Flower that belongs to this Python.

    Raises ``RunFailed`` where it is not there.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        raise RunFailed(f"the program {name} is not there: install flwr beside fedsim")
    return found


def warm(socket: Path) -> list[str]:
    """The process that forks for every message (``fedsim.engines.deploy.warm``)."""
    return [sys.executable, "-m", "fedsim.engines.deploy.warm", str(socket), "fedsim.runs.app"]


def write_shim(folder: Path, socket: Path) -> None:
    """Puts a program ``flwr-clientapp`` into ``folder`` that asks the process at ``socket``."""
    folder.mkdir()
    program = folder / "flwr-clientapp"
    command = shlex.join([sys.executable, "-S", "-E", str(Path(shim.__file__)), str(socket)])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    program.chmod(0o700)


def superlink(port: int, certificates: Certificates | None) -> list[str]:
    """A SuperLink on ``port``; its apps are started by a ``superexec`` beside it.

    With ``certificates`` a SuperNode needs a key that is registered.
    """
    if certificates is None:
        secured = ["--insecure"]
    else:
        secured = [
            "--ssl-ca-certfile", str(certificates.authority),
            "--ssl-certfile", str(certificates.certificate),
            "--ssl-keyfile", str(certificates.key), "--enable-supernode-auth",
        ]  # fmt: skip
    where = ["--host", LOOPBACK, "--port", str(port)]
    return [find("flower-superlink"), *where, "--isolation", "process", *secured]


def superexec(port: int, certificates: Certificates | None) -> list[str]:
    """What starts the ServerApp's process for the SuperLink on ``port``.

    A SuperLink that starts it itself puts it into another session, where it would not be stopped
    with the SuperLink.
    """
    where = ["--runtime-api-address", f"{LOOPBACK}:{port}"]
    return [find("flower-superexec"), *where, *_trusting(certificates)]


def register(publics: Mapping[int, Path], table: Path) -> list[str]:
    """What lets SuperNodes with these public keys, by client, join the federation.

    ``table``: the file that says which node is whose.
    """
    keys = [f"{client}={path}" for client, path in publics.items()]
    register = [sys.executable, "-m", "fedsim.engines.deploy.register"]
    return [*register, bundle.CONNECTION, str(table), *keys]


def supernode(
    link: int, port: int, certificates: Certificates | None, settings: Mapping[str, str | int],
    key: Path | None = None,
) -> list[str]:  # fmt: skip
    """A SuperNode of the SuperLink on port ``link``; its own processes talk to it on ``port``.

    ``key``: its private key, where the SuperLink asks for one.
    """
    secret = [] if key is None else ["--auth-supernode-private-key", str(key)]
    spelled = " ".join(f"{key}={_toml(value)}" for key, value in settings.items())
    return [
        find("flower-supernode"), "--superlink", f"{LOOPBACK}:{link}", "--host", LOOPBACK,
        "--port", str(port), "--node-config", spelled, *secret, *_trusting(certificates),
    ]  # fmt: skip


def _trusting(certificates: Certificates | None) -> list[str]:
    if certificates is None:
        return ["--insecure"]
    return ["--root-certificates", str(certificates.authority)]


def _toml(value: str | int) -> str:
    """A value as Flower's node config has it: a text may not hold both kinds of quotes."""
    if isinstance(value, int):
        return str(value)
    mark = "'" if '"' in value else '"'
    return f"{mark}{value}{mark}"

"""Flower's programs: where they are, what they are given, and the environment in which they run.

The processes of a deployment on one machine share one installed fedsim: the app that ``flwr run``
is given names fedsim's. A checkout's app carries the code itself (``docs/deploy.md``).
"""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import tomli_w

from fedsim.engines.deploy import clientapp
from fedsim.engines.deploy.ports import LOOPBACK
from fedsim.ground.errors import RunFailed

_ROOT = Path(__file__).resolve().parents[3]
_POLL_SECONDS = 0.2
_MODULE = "fedsim_deployed"

CONNECTION = "here"  # what the settings of Flower's command line call the SuperLink

Value = str | int | float | bool


def environment(home: Path, first: Path | None = None) -> dict[str, str]:
    """The variables of a Flower process: a home of its own, this Python's programs, this fedsim.

    ``home``: where Flower keeps its settings and the apps that it was sent; ``first``: a folder
    that comes first in ``PATH``.
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
    program = shutil.which(name, path=path)
    if program is None:
        raise RunFailed(f"the program {name} is not there: install flwr beside fedsim")
    return program


def write_app(folder: Path, settings: Mapping[str, Value]) -> None:
    """Writes an app into a new folder; ``settings`` are spelled as flags (``batch-size``)."""
    folder.mkdir(parents=True)
    flower = {
        "publisher": "fedsim",
        "components": {
            "serverapp": f"{_MODULE}:server_app",
            "clientapp": f"{_MODULE}:client_app",
        },
        "config": dict(settings),
    }
    project = {
        "name": "fedsim-deployed",
        "version": "0.1.0",
        "license": "MIT",
        "description": "A run of fedsim",
    }
    described = tomli_w.dumps({"project": project, "tool": {"flwr": {"app": flower}}})
    (folder / "pyproject.toml").write_text(described, encoding="utf-8")
    (folder / f"{_MODULE}.py").write_text(
        '"""The app of the fedsim that is installed."""\n\n'
        "from fedsim.runs.app import client_app, server_app\n\n"
        '__all__ = ["client_app", "server_app"]\n',
        encoding="utf-8",
    )


def write_connection(home: Path, port: int) -> None:
    """Tells Flower's command line, whose home is ``home``, of the SuperLink on ``port``."""
    connection = {"address": f"{LOOPBACK}:{port}", "insecure": True}
    home.mkdir(parents=True, exist_ok=True)
    text = tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: connection}})
    (home / "config.toml").write_text(text, encoding="utf-8")


def warm(socket: Path) -> list[str]:
    """The process that forks for every message (``fedsim.engines.deploy.clientapp``)."""
    module = "fedsim.engines.deploy.clientapp"
    return [sys.executable, "-m", module, str(socket), "fedsim.runs.app"]


def write_shim(folder: Path, socket: Path) -> None:
    """Puts a program ``flwr-clientapp`` into ``folder`` that asks the process at ``socket``."""
    folder.mkdir()
    program = folder / "flwr-clientapp"
    script = [sys.executable, "-S", "-E", str(Path(clientapp.__file__)), "ask", str(socket)]
    command = shlex.join(script)
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    program.chmod(0o700)


def superlink(port: int) -> list[str]:
    """A SuperLink on ``port``; a ``superexec`` starts its apps."""
    where = ["--host", LOOPBACK, "--port", str(port)]
    return [find("flower-superlink"), *where, "--isolation", "process", "--insecure"]


def superexec(port: int) -> list[str]:
    """What starts the ServerApp's process for the SuperLink on ``port``.

    A SuperLink that starts it itself puts it into another session, where it would not be stopped
    with the SuperLink.
    """
    where = ["--runtime-api-address", f"{LOOPBACK}:{port}"]
    return [find("flower-superexec"), *where, "--insecure"]


def supernode(link: int, port: int, settings: Mapping[str, str | int]) -> list[str]:
    """A SuperNode of the SuperLink on port ``link``; its own processes talk to it on ``port``."""
    spelled = []
    for name, value in settings.items():
        if isinstance(value, str):  # TOML, in which Flower looks for the next quote
            value = '"' + value.replace("\\", r"\\").replace('"', r"\u0022") + '"'
        spelled.append(f"{name}={value}")
    return [
        find("flower-supernode"),
        "--superlink",
        f"{LOOPBACK}:{link}",
        "--host",
        LOOPBACK,
        "--port",
        str(port),
        "--node-config",
        " ".join(spelled),
        "--insecure",
    ]

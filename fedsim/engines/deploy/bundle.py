"""What ``flwr run`` is given: an app that names fedsim's, and the run's settings in it.

The processes of a deployment on one machine share one installed fedsim: the bundle that Flower
sends them carries its name. A checkout's bundle carries the code itself (``docs/deploy.md``).
"""

from collections.abc import Mapping
from pathlib import Path

import tomli_w

from fedsim.engines.deploy.certificates import Certificates
from fedsim.engines.deploy.ports import LOOPBACK

CONNECTION = "here"
"""What the settings of Flower's command line call the SuperLink."""

Value = str | int | float | bool
_MODULE = "fedsim_deployed"


def write_app(folder: Path, settings: Mapping[str, Value]) -> None:
    """Writes an app into ``folder``, which is made.

    Args:
        folder: the app's.
        settings: of the run that are not defaults, spelled as flags are (``batch-size``).
    """
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
        "name": "fedsim-deployed", "version": "0.1.0", "license": "MIT",
        "description": "A run of fedsim",
    }  # fmt: skip
    described = tomli_w.dumps({"project": project, "tool": {"flwr": {"app": flower}}})
    (folder / "pyproject.toml").write_text(described, encoding="utf-8")
    (folder / f"{_MODULE}.py").write_text(
        '"""The app of the fedsim that is installed."""\n\n'
        "from fedsim.runs.app import client_app, server_app\n\n"
        '__all__ = ["client_app", "server_app"]\n',
        encoding="utf-8",
    )


def write_connection(home: Path, port: int, certificates: Certificates | None) -> None:
    """Tells Flower's command line, whose home is ``home``, of the SuperLink on ``port``."""
    secured = (
        {"insecure": True}
        if certificates is None
        else {"root-certificates": str(certificates.authority)}
    )
    here = {"address": f"{LOOPBACK}:{port}"} | secured
    home.mkdir(parents=True, exist_ok=True)
    text = tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: here}})
    (home / "config.toml").write_text(text, encoding="utf-8")

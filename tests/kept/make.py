"""A run, a stopped run and a sweep of this version, which later versions are tried on.

    PYTHONPATH=. python tests/kept/make.py

writes them to ``tests/kept/VERSION``, without pages, which ``fedsim report`` writes again. Once for
every version: a folder that is there stays as it is. ``tests/test_kept.py`` uses all of them.
"""

import contextlib
import os
import sys
from importlib.metadata import version
from pathlib import Path

import fedsim
from fedsim.commands.cli import main
from fedsim.settings.config import from_toml
from fedsim.show import report
from tests.support.interrupting import Stopped, stop_after

HERE = Path(__file__).resolve().parent
_SMALL = ("--task", "task.py:TASK", "--clients", "2", "--evaluate-every", "1")
RUN = (
    "run", *_SMALL, "--method", "sbc(0.1)", "--downlink", "sbc(0.1)", "--temporal", "2",
    "--keep-payloads", "--iterations",
)  # fmt: skip
"""Its last argument is missing: so many local iterations."""
SWEEP = (
    "sweep", *_SMALL, "--temporal", "2", "--gradient", "0.1", "--iterations", "4", "--seeds", "2",
)  # fmt: skip


def typed(*arguments: str) -> None:
    """A command, without page and figures."""
    report.written = lambda _, folder, *more: Path(folder) / "report.html"
    assert main([*arguments]) == 0


if __name__ == "__main__":
    os.chdir(HERE)
    place = version("fedsim-lab")
    if Path(place).exists():
        sys.exit(f"tests/kept/{place} is there: a version's folder is written once")
    typed(*RUN, "8", "--out", f"{place}/run")
    with contextlib.suppress(Stopped):
        config = from_toml(Path(place, "run", "config.toml")).but(checkpoint_every=1)
        fedsim.run(config, f"{place}/stopped", callbacks=[stop_after(3)], progress=False)
    typed(*SWEEP, "--jobs", "1", "--out", f"{place}/sweep")

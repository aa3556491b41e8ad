"""Folders of this version, which later versions are tried on: runs, stopped runs, sweep and search.

    PYTHONPATH=. python tests/kept/make.py

writes to ``tests/kept/VERSION`` what it lacks, without pages, which ``fedsim report`` writes again.
A folder that is there stays as it is: a part that is added to this file later is made for a version
by that version's own code (``PYTHONPATH`` names a checkout of it). ``tests/test_kept.py`` uses all.
"""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import fedsim
from fedsim.commands.cli import main
from fedsim.runs.environment import described
from fedsim.settings.config import from_toml
from fedsim.show import report
from tests.support.interrupting import Stopped, stop_after

HERE = Path(__file__).resolve().parent
_SMALL = ("--task", "task.py:TASK", "--clients", "2", "--evaluate-every", "1")
RUN = (
    "run",
    *_SMALL,
    "--method",
    "sbc(0.1)",
    "--downlink",
    "sbc(0.1)",
    "--temporal",
    "2",
    "--keep-payloads",
    "--iterations",
)
"""Its last argument is missing: so many local iterations. So do ``FEEDBACK`` and ``STACKED``."""
FEEDBACK = (
    "run",
    *_SMALL,
    "--method",
    "ef(topk(0.1) | float32 | golomb)",
    "--temporal",
    "2",
    "--iterations",
)
"""In 0.1.0 momentum was masked wherever a method has ``ef``."""
STACKED = (
    "run",
    *_SMALL,
    "--method",
    "sbc(0.1)",
    "--temporal",
    "2",
    "--stack",
    "2",
    "--iterations",
)
LATE = (
    "run", "--task", "task.py:TASK", "--clients", "6", "--evaluate-every", "1", "--method",
    "sbc(0.1)", "--downlink", "sbc(0.1)", "--temporal", "2", "--network",
    "up=lognormal(9kbit, 1.5), down=20kbit, latency=uniform(1ms, 90ms), "
    "compute=lognormal(50ms, 0.8), server_up=12kbit, server_down=40kbit", "--deadline", "700ms",
    "--dropout", "before=0.1, after=0.1", "--late", "count", "--cohort", "4", "--ask", "6",
    "--min-replies", "1", "--seed", "3", "--iterations",
)  # fmt: skip
"""After its fifth round an upload and a download of earlier rounds are under way."""
SWEEP = (
    "sweep",
    *_SMALL,
    "--temporal",
    "2",
    "--gradient",
    "0.1",
    "--iterations",
    "4",
    "--seeds",
    "2",
)
SEARCH = (
    "search",
    *_SMALL[:4],
    "--methods",
    "ef(topk({p}) | float32 | golomb)",
    "--budget",
    "20kbit",
    "--iterations",
    "8",
    "--seeds",
    "1",
    "--trials",
)
"""Its last argument is missing: so many trials."""
_PAGES = ("report.html", "search.png")
_READ = {"late": {"config.toml", "rounds.parquet"}}
"""Of these folders no test reads more, and the rest is removed when all are made."""
_LAST = ("late-stopped", "feedback-stopped")
"""Of these the last checkpoint is kept alone; ``stopped`` has the one before it, too."""


def typed(*arguments: str) -> None:
    """A command, without page and figures."""
    report.written_page = lambda _, folder, *more: Path(folder) / "report.html"
    assert main([*arguments]) == 0


def stopped(finished: str, out: str, rounds: int = 3) -> None:
    """The run in the folder ``finished``, stopped after so many rounds with a checkpoint."""
    config = from_toml(Path(finished, "config.toml"), trust_code=True).but(checkpoint_every=1)
    with contextlib.suppress(Stopped):
        fedsim.run(config, out, callbacks=[stop_after(rounds)], progress=False)


def parts(place: str) -> dict[str, Callable[[], None]]:
    """What makes each folder of a version, in order: some need one that is made before."""
    return {
        "run": lambda: typed(*RUN, "8", "--out", f"{place}/run"),
        "stopped": lambda: stopped(f"{place}/run", f"{place}/stopped"),
        "sweep": lambda: typed(*SWEEP, "--jobs", "1", "--out", f"{place}/sweep"),
        "feedback": lambda: typed(*FEEDBACK, "8", "--out", f"{place}/feedback"),
        "feedback-stopped": lambda: stopped(f"{place}/feedback", f"{place}/feedback-stopped"),
        "late": lambda: typed(*LATE, "16", "--out", f"{place}/late"),
        "late-stopped": lambda: stopped(f"{place}/late", f"{place}/late-stopped", 5),
        "stacked": lambda: typed(*STACKED, "8", "--out", f"{place}/stacked"),
        "search": lambda: typed(*SEARCH, "3", "--out", f"{place}/search"),
    }


if __name__ == "__main__":
    os.chdir(HERE)
    place = described()
    for name, make in parts(place).items():
        folder = Path(place, name)
        if folder.exists():
            continue
        make()
        for page in _PAGES:
            (folder / page).unlink(missing_ok=True)
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        print(folder)
    for name, files in _READ.items():
        for path in Path(place, name).iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in files:
                path.unlink()
    for name in _LAST:
        for path in sorted(Path(place, name).glob("checkpoint-*"))[:-1]:
            shutil.rmtree(path)

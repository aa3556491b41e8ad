"""Folders of results that name a task's file of somebody else's: it is never carried out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedsim.errors import UsageError
from fedsim.settings.config import RunConfig, read_toml
from fedsim.settings.spelling import FILE, TABLE
from fedsim.tasks.place import origin

_SETTINGS = ("config.toml", "sweep.toml", FILE)


def check_tasks(out: Path, runs: Sequence[RunConfig]) -> None:
    """Refuses a folder whose settings name a file of a task that none of the runs names.

    To read them would carry that file out, and a folder may come from anybody.
    """
    known = {"", *(origin(run.plan.task.written) for run in runs)}
    for file in (*(out / name for name in _SETTINGS), *sorted(out.glob("cells/*/config.toml"))):
        for task in _tasks(file):
            if origin(task) not in known:
                raise UsageError(
                    f"--out is {out}: its {file.relative_to(out)} names the task {task!r}, whose "
                    "file is not carried out, for it is not a task of these runs; choose another "
                    "folder"
                )


def _tasks(file: Path) -> list[str]:
    """The tasks that a file of settings names; of one that cannot be read none."""
    try:
        values = read_toml(file) if file.exists() else {}
    except UsageError:
        return []
    cells = values.get(TABLE)
    tables = [values, *(cells.values() if isinstance(cells, dict) else ())]
    named = [table.get("task") for table in tables if isinstance(table, Mapping)]
    return [task for task in named if isinstance(task, str)]

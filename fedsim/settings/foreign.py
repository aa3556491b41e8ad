"""Folders of results that name a file of somebody else's: it is never carried out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedsim.ground.errors import UsageError
from fedsim.settings.config import FILE, TABLE, RunConfig
from fedsim.settings.versions import read_toml
from fedsim.tasks.place import origin

_SETTINGS = ("config.toml", "sweep.toml", FILE)


def check_tasks(out: Path, runs: Sequence[RunConfig]) -> None:
    """Refuses a folder that names a file of a task or strategy which none of the runs names.

    To read them would carry that file out, and a folder may come from anybody.
    """
    named = [place for run in runs for place in (run.plan.task.written, run.plan.strategy)]
    known = {"", *map(origin, named)}
    for file in (*(out / name for name in _SETTINGS), *sorted(out.glob("cells/*/config.toml"))):
        try:
            values = read_toml(file) if file.exists() else {}
        except UsageError:  # of one that cannot be read nothing is carried out
            continue
        cells = values.get(TABLE)
        tables = [values, *(cells.values() if isinstance(cells, dict) else ())]
        for setting in ("task", "strategy"):
            places = (table.get(setting) for table in tables if isinstance(table, Mapping))
            for place in places:
                if isinstance(place, str) and origin(place) not in known:
                    raise UsageError(
                        f"--out is {out}: its {file.relative_to(out)} names the {setting} "
                        f"{place!r}. These runs do not name that file, so it is not executed; "
                        "choose another folder"
                    )

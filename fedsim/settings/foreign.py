"""Folders of results that name a file of somebody else's: it is never carried out."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedsim.ground.errors import UsageError
from fedsim.ground.strangers import check_file
from fedsim.settings import contents
from fedsim.settings.config import CELLS_FILE, RunConfig
from fedsim.settings.trust_check import named_texts
from fedsim.settings.versions import read_settings_toml
from fedsim.tasks.place import SEPARATOR, literal_origin, origin, redirect

_SETTINGS = ("config.toml", "sweep.toml", CELLS_FILE)


def check_tasks(out: Path, runs: Sequence[RunConfig]) -> None:
    """Refuses a folder that names a file (of a task, say) which none of the runs names.

    To read them would carry that file out, and a folder may come from anybody.
    """
    origins = {"", *(origin(place) for run in runs for place in _places(run).values())}
    for file, values in _files(out):
        for setting, place in named_texts(values):
            if origin(place) not in origins:
                raise UsageError(
                    f"--out is {out}: its {file.relative_to(out)} names the {setting} "
                    f"{place!r}. These runs do not name that file, so it is not executed; "
                    "choose another folder"
                )


@contextmanager
def own_files(out: Path, runs: Sequence[RunConfig]) -> Iterator[None]:
    """Inside, settings in the folder are read with the runs' own files where these have moved.

    Raises ``UsageError`` as ``check_tasks``.
    """
    with redirect(moves(out, runs)):
        check_tasks(out, runs)
        yield


def moves(out: Path, runs: Sequence[RunConfig]) -> dict[str, str]:
    """The files that a folder names and that lie elsewhere now, or have another name.

    By the place that a ``config.toml`` names, the file of a run that had the same content. It is
    loaded in its place (``fedsim.tasks.place.redirect``), so that no other file is carried out.
    """
    now = {
        (setting, digest): _places(run)[setting].rpartition(SEPARATOR)[0]
        for run in runs
        for setting, digests in contents.code(run).items()
        if setting != "rows"
        for digest in digests.values()
    }
    new_places: dict[str, str] = {}
    for _, values in _files(out) if now else ():
        content, places = values.get(contents.CONTENT), dict(named_texts(values))
        for setting, digests in content.items() if isinstance(content, dict) else ():
            for digest in digests.values() if isinstance(digests, dict) else ():
                path = now.get((setting, digest)) if isinstance(digest, str) else None
                if path is not None and setting in places:
                    new_places[literal_origin(places[setting])] = path
    pairs = new_places.items()
    return {old: new for old, new in pairs if old != literal_origin(f"{new}{SEPARATOR}")}


def _places(run: RunConfig) -> dict[str, str]:
    plan = run.plan
    return {
        "task": plan.task.written,
        "strategy": plan.strategy,
        "sampler": plan.sampler,
        "partition": plan.partition,
    }


def _files(out: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The files of settings in a folder of results, with their values."""
    for file in (*(out / name for name in _SETTINGS), *sorted(out.glob("cells/*/config.toml"))):
        try:
            if os.path.lexists(file):
                check_file(file)
            if file.exists():
                yield file, read_settings_toml(file)
        except (UsageError, OSError):  # of one that cannot be read nothing is carried out
            continue
        except ValueError as error:
            raise UsageError(f"{file}: {error}") from error

"""Recognition of the folders of runs and sweeps, without pandas, before a run."""

from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from fedsim.ground.errors import UsageError


def run_folders(path: Path) -> list[Path]:
    """The run folders at or below `path`, by name: `path/cells/*`, or `path` itself.

    Empty where `path` holds no results. Raises UsageError where `path` is not a folder.
    """
    if path.exists() and not path.is_dir():
        raise UsageError(f"no results in {path}: it is a file; give its folder, '{path.parent}'")
    if not path.is_dir():
        raise UsageError(f"no results in {path}: there is no such folder{_near(path)}")
    if kind_of(path) == "sweep":
        folders = sorted(item for item in (path / "cells").iterdir() if item.is_dir())
        folders = [item for item in folders if not item.name.startswith(".")]
        home = path.resolve()
        for item in folders:
            if not item.resolve().is_relative_to(home):
                raise UsageError(f"{item} is a link that leads out of its folder")
        return folders
    return [path.resolve()] if kind_of(path) == "run" else []


def _near(path: Path) -> str:
    """Up to three folders of results where ``path`` would be, of similar names, as a hint."""
    try:
        names = [item.name for item in path.parent.iterdir() if item.is_dir() and kind_of(item)]
    except OSError:  # that folder does not exist either
        names = []
    similar = get_close_matches(path.name, names, n=3, cutoff=0)
    paths = ", ".join(str(path.parent / name) for name in similar)
    return f"; results are in {paths}" if paths else ""


def kind_of(path: Path) -> Literal["run", "sweep"] | None:
    """Whether a folder is a run's or a sweep's; None: neither's, or there is none."""
    if (path / "cells").is_dir():
        return "sweep"
    marks = ("summary.json", "config.toml")
    return "run" if any((path / mark).exists() for mark in marks) else None

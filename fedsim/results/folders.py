"""Which folders are a run's or a sweep's; told without pandas, before a run."""

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
        raise UsageError(f"no results in {path}: there is no such folder.")
    if kind_of(path) == "sweep":
        folders = sorted(item for item in (path / "cells").iterdir() if item.is_dir())
        folders = [item for item in folders if not item.name.startswith(".")]
        home = path.resolve()
        for item in folders:
            if not item.resolve().is_relative_to(home):
                raise UsageError(f"{item} is a link that leads out of its folder")
        return folders
    return [path.resolve()] if kind_of(path) == "run" else []


def kind_of(path: Path) -> Literal["run", "sweep"] | None:
    """Whether a folder is a run's or a sweep's; None: neither's, or there is none."""
    if (path / "cells").is_dir():
        return "sweep"
    marks = ("summary.json", "config.toml")
    return "run" if any((path / mark).exists() for mark in marks) else None

"""Folders of runs, sweeps and searches: recognized, and listed newest first; without pandas."""

import json
from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from fedsim.ground import units
from fedsim.ground.errors import UsageError

USUAL = Path("fedsim-results")
"""Where commands without ``--out`` write."""

_STUDY = "study.db"


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


def results_in(folder: Path) -> list[dict[str, Any]]:
    """The runs, sweeps and searches in ``folder``, newest first.

    Each has its path as ``name``, its ``kind``, a ``title`` (what was run and what came of it) and
    the local ``date`` of its last change. A result that is not whole says so in its title.

    Raises ``UsageError`` where there is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(f"no results in {folder}: there is no such folder")
    results = []
    for path in folder.iterdir():
        kind = "search" if (path / _STUDY).exists() else kind_of(path)
        if kind is not None:
            changed = max(item.stat().st_mtime for item in [path, *path.iterdir()])
            results.append((changed, path, kind))
    return [
        {
            "name": str(path),
            "kind": kind,
            "title": _title(path, kind),
            "date": datetime.fromtimestamp(changed).strftime("%Y-%m-%d %H:%M"),
        }
        for changed, path, kind in sorted(results, key=lambda row: row[0], reverse=True)
    ]


def _title(path: Path, kind: str) -> str:
    if kind == "search":
        return "a search"
    summaries = [_summary(folder) for folder in run_folders(path)]
    if kind == "run":
        return _of_run(summaries[0]) if summaries and summaries[0] else "not finished"
    done = [cell for cell in summaries if cell.get("status") == "done"]
    task, methods = _only(summaries, "task"), _only(summaries, "method")
    return ", ".join(filter(None, (task, methods, f"{len(done)} of {len(summaries)} cells done")))


def delay_of(summary: Mapping[str, Any]) -> str:
    """The delay of a run in words, from its summary: ``n = 5``, ``E = 2``, ``T = 0.5 s``."""
    if summary.get("local_seconds"):
        return f"T = {summary['local_seconds']:g} s"
    return f"{'E' if summary.get('local_epochs') else 'n'} = {summary['temporal']}"


def _only(summaries: list[dict[str, Any]], name: str) -> str:
    """The value that cells share, or how many values there are."""
    values = {str(cell[name]) for cell in summaries if cell.get(name)}
    return values.pop() if len(values) == 1 else f"{len(values)} {name}s" if values else ""


def _of_run(cell: Mapping[str, Any]) -> str:
    parts = [str(cell.get(name)) for name in ("task", "method") if cell.get(name)]
    parts += [delay_of(cell)] if "temporal" in cell else []
    if cell.get("status") != "done":
        return ", ".join([*parts, str(cell.get("status", "not finished"))])
    score = f"{cell.get('metric_name', 'metric')} {float(cell['metric']):.4g}"
    return f"{', '.join(parts)}: {score}, {units.bits(cell['up_wire_bits'])} up"


def _summary(folder: Path) -> dict[str, Any]:
    """What ``summary.json`` holds; nothing where it is not there or not whole."""
    try:
        cell = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cell if isinstance(cell, dict) else {}

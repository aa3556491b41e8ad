"""What users typed: a run's method as they wrote it, and the name that they gave the run."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsim.settings.cellfile import FILE, TABLE

Cells = Mapping[str, dict[str, Any]]
"""The dicts of ``summary.json`` by the run's name."""

_PLACE = re.compile(r"(?:^|[-_])(n|p|seed|s)(\d[\d.]*(?:e-?\d+)?)(?=[-_]|$)")


def typed(folders: Mapping[str, Path], cells: Cells) -> dict[str, tuple[str, str]]:
    """Of each run the method as it was typed, and its name; empty where there is none.

    The name is the setting ``label`` of the run, else the cell's in ``runs.toml``, less what says
    n, p and seed (``without_place``). Both are on disk in folders of older versions too.

    Args:
        folders, cells: by the run's name.
    """
    listed: dict[Path, set[str]] = {}
    found = {}
    for run, folder in folders.items():
        settings = _table(folder / "config.toml")
        sweep = folder.parent.parent
        if folder.parent.name == "cells" and sweep not in listed:
            listed[sweep] = {*(_table(sweep / FILE).get(TABLE) or ())}
        name = settings.get("label")
        if not name and folder.name in listed.get(sweep, ()):
            name = without_place(folder.name, cells[run])
        found[run] = (str(settings.get("method") or "").strip(), str(name or ""))
    return found


def without_place(name: str, cell: Mapping[str, Any]) -> str:
    """A cell's name less its delay, fraction and seed, which stand in columns of their own.

    Example:
        >>> without_place("sbc-n10-p0.01-s2", {"temporal": 10, "gradient": 0.01, "seed": 2})
        'sbc'
        >>> without_place("sbc-n5", {"temporal": 10, "gradient": 0.01, "seed": 2})
        'sbc-n5'
    """
    keys = {"n": "temporal", "p": "gradient", "s": "seed", "seed": "seed"}

    def kept(part: re.Match[str]) -> str:
        said, true = float(part[2]), float(cell[keys[part[1]]])
        return "" if abs(said - true) <= 0.01 * true else part[0]  # a name rounds: p0.333

    return _PLACE.sub(kept, name).strip("-_.")


def _table(file: Path) -> dict[str, Any]:
    """A TOML file's values; empty where it cannot be read."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}

"""Results of several folders side by side: what their runs are called, and which are the same."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedsim.config import RunConfig
from fedsim.errors import UsageError

_CELL = ("task", "method", "temporal", "gradient", "seed")
_OUTSIDE = {f.name for f in fields(RunConfig) if not f.metadata["result"]} | {"method", "gradient"}
_COMPARED = ("clients", "iterations", "parameters", "metric", "up_wire_bits")


def unique_names(paths: Sequence[Path]) -> dict[str, Path]:
    """Each folder by its name, or by its path where two have the same name.

    Raises:
        UsageError: a folder is given twice.
    """
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise UsageError(f"{path} is given twice: give each folder of results once")
    names = [place.name for place in places]
    whole = len(set(names)) < len(names)
    return {str(path) if whole else path.resolve().name: path for path in paths}


def without_repeated(
    cells: Mapping[str, dict[str, Any]], folders: Mapping[str, Path]
) -> dict[str, dict[str, Any]]:
    """`cells` by name, each run once: the first that is done of those with the same settings.

    Raises:
        UsageError: two runs of one task, method, n, p and seed have other settings.
    """
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, cell in cells.items():
        groups.setdefault(tuple(cell[key] for key in _CELL), []).append(name)
    kept: dict[str, dict[str, Any]] = {}
    for first, *others in groups.values():
        for other in others:
            differ = _differences(cells[first], cells[other], folders[first], folders[other])
            if differ:
                raise UsageError(
                    f"{folders[first]} and {folders[other]} are the same cell with other settings "
                    f"({'; '.join(differ)}): load folders whose runs share all but method, "
                    "temporal and gradient sparsity"
                )
        done = [name for name in (first, *others) if cells[name]["status"] == "done"]
        name = (done or [first])[0]
        kept[name] = cells[name]
    return kept


def _differences(one: dict[str, Any], two: dict[str, Any], here: Path, there: Path) -> list[str]:
    """In what two runs of a cell differ, by their `config.toml`; without them by their numbers."""
    try:
        settings = [tomllib.loads((f / "config.toml").read_text("utf-8")) for f in (here, there)]
        keys = {key for table in settings for key in table} - _OUTSIDE
        pairs = {key: [table.get(key) for table in settings] for key in sorted(keys)}
    except (OSError, ValueError):
        pairs = {key: [one.get(key), two.get(key)] for key in _COMPARED}
    return [f"{key} {a!r} and {b!r}" for key, (a, b) in pairs.items() if a != b]

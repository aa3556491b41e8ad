"""Files of settings of earlier versions: read as they were meant, and written with the version.

What fedsim writes into a results folder says by which version's rules it was made. A file without a
version that fedsim wrote is of 0.1.0, which wrote none; one that a person wrote is of today.
A rule or a name that changes gets a function here that puts today's words into a file of before, so
that the rest of fedsim knows one meaning.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedsim.ground.errors import UsageError, reason
from fedsim.ground.version import VERSION

KEY, FIRST = "version", "0.1.0"
COMMITS = {FIRST: "29f117ea"}
"""The last commit of each earlier version, which goes on with what this version refuses."""

MASKING, FORMER = "momentum_masking", "ef"
"""A setting, and the value of it that has the meaning of 0.1.0's ``auto``."""

STACK, _VMAP = "stack", "vmap"
"""A setting, and the word for its values of 0.1.0, which stacked clients by ``torch.func.vmap``."""

_LISTED = "# `fedsim sweep --config runs.toml"
_FOUND = re.compile(r"# .*, as a search found it\.")
_BESIDE = {
    "config.toml": ("summary.json", "environment.json", "rounds.parquet"),
    "sweep.toml": ("cells",),
    "runs.toml": ("cells",),
    "best.toml": ("study.db",),
}
"""Files in the same folder that show that fedsim wrote a file into a results folder."""

_WHOLE = (("training", MASKING), ("machine", "memory_as"), ("keep", "payloads"))
"""Settings at their defaults, which 0.1.0 wrote into every ``config.toml`` and people leave out."""


def called(version: str) -> str:
    """A version as messages name it, with its commit."""
    commit = COMMITS.get(version)
    return f"fedsim {version}" + (f" (commit {commit})" if commit else "")


def stamped(values: Mapping[str, Any]) -> dict[str, Any]:
    """A file's values, this version before them."""
    return {KEY: VERSION, **values}


def read_versioned(path: Path) -> dict[str, Any]:
    """The values of a file of settings, in today's words and without the version.

    Raises ``UsageError``, which names the file, where it cannot be read.
    """
    return meant(read_settings_toml(path), path)


def read_settings_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file; ``UsageError`` names the file where it cannot be read."""
    from fedsim.ground.strangers import parsed_toml  # not for --help

    try:
        return parsed_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"--config is {path}: there is no such file") from error
    except (OSError, ValueError) as error:  # so are those of TOML and of UTF-8
        raise UsageError(f"{path} cannot be read as TOML: {reason(error)}") from error


def meant(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What a file's values mean today, by its version; without one, by the files next to ``path``.

    Raises ``UsageError`` where its version is none.
    """
    version = values.get(KEY, FIRST if _is_ours(values, path) else VERSION)
    if not isinstance(version, str) or not _numbers(version):
        raise UsageError(f"{path}: {KEY} is {version!r}; fedsim writes its own, such as {VERSION}")
    changed = {name: value for name, value in values.items() if name != KEY}
    for since, change in _CHANGES:
        if _numbers(version) < since:
            changed = change(changed)
    return changed


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a release; a version before it counts as the release."""
    return tuple(map(int, re.findall(r"\d+", re.split(r"[a-z]", version)[0])))


def _is_ours(values: Mapping[str, Any], path: Path) -> bool:
    """Whether fedsim wrote a file that has no version."""
    companions = _BESIDE.get(path.name, ())
    if any((path.parent / name).exists() for name in companions):
        return True
    groups = ((values.get(group), name) for group, name in _WHOLE)
    if all(isinstance(group, Mapping) and name in group for group, name in groups):
        return True  # a copy
    try:
        with path.open(encoding="utf-8") as file:
            first = file.readline().rstrip("\n")
    except (OSError, UnicodeDecodeError):
        return False
    return first.startswith(_LISTED) or _FOUND.fullmatch(first) is not None


def _masked_with_ef(values: dict[str, Any]) -> dict[str, Any]:
    """``auto`` masked momentum with every method that has ``ef``, until the method said it."""
    vary = values.get("vary")
    if isinstance(vary, Mapping) and (name := _spelled(vary, MASKING)):
        masking = vary[name]
        varied = list(map(former, masking)) if isinstance(masking, list) else former(masking)
        return {**values, "vary": {**vary, name: varied}}
    result = values | {"training": _training(values.get("training", {}), is_cell=False)}
    cells = values.get("cells")
    if isinstance(cells, Mapping):
        result["cells"] = {name: _cell(cell) for name, cell in cells.items()}
    return result


def masking_words(values: Mapping[str, Any]) -> set[str]:
    """The values of ``momentum_masking`` in a file: its own, those of its cells and the varied."""
    cells = values.get("cells")
    tables = [values, *(cells.values() if isinstance(cells, Mapping) else ())]
    groups = [values.get("vary"), *(t.get("training") for t in tables if isinstance(t, Mapping))]
    entries = [g.get(_spelled(g, MASKING)) for g in groups if isinstance(g, Mapping)]
    words = [word for x in entries for word in (x if isinstance(x, list) else [x])]
    return {word for word in words if isinstance(word, str)}


def _cell(cell: Any) -> Any:
    if not isinstance(cell, Mapping) or "training" not in cell:
        return cell  # which has the masking of all
    return {**cell, "training": _training(cell["training"], is_cell=True)}


def _training(table: Any, is_cell: bool) -> Any:
    """The table of training; ``is_cell``: whether what it does not say stays unsaid."""
    if not isinstance(table, Mapping):
        return table
    name = _spelled(table, MASKING)
    if not name:
        return table if is_cell else {**table, MASKING: FORMER}
    return {**table, name: former(table[name])}


def _spelled(table: Mapping[str, Any], name: str) -> str:
    """The key of a setting, which may have ``-`` for ``_``; empty where it is not there."""
    return next((key for key in table if key.replace("-", "_") == name), "")


def former(value: Any) -> Any:
    """A value of ``momentum_masking`` of 0.1.0 in today's words."""
    return FORMER if value == "auto" else value


def _stacked_by_vmap(values: dict[str, Any]) -> dict[str, Any]:
    """``stack`` trained clients in one batch, with other last bits than one after the other."""
    machine = values.get("machine")
    stack = machine.get(STACK, "1") if isinstance(machine, Mapping) else "1"
    if str(stack) == "1" or not isinstance(machine, Mapping):
        return values
    return {**values, "machine": {**machine, STACK: f"{_VMAP}({stack})"}}


def former_stack(value: Any) -> str:
    """The clients that 0.1.0 trained in one batch, 2 of ``vmap(2)``; empty: none."""
    match = re.fullmatch(rf"{_VMAP}\((auto|[1-9][0-9]*)\)", str(value))
    return match[1] if match else ""


STACKED = f"clients were trained in one batch, as {called(FIRST)} alone does"
"""Why a folder made with ``--stack`` is neither extended nor run again."""

_CHANGES: tuple[tuple[tuple[int, ...], Callable[[dict[str, Any]], dict[str, Any]]], ...] = (
    ((0, 2, 0), _masked_with_ef),
    ((0, 2, 0), _stacked_by_vmap),
)
"""Since which version a rule or a name is another one, and what that makes of a file of before."""

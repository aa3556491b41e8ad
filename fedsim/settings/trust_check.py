"""The files of code that may be executed: those that a command line names, not those of a folder.

A file of settings may come from anybody. Its ``task``, ``strategy``, ``sampler`` and
``partition`` may be ``FILE.py:NAME``, and to read them executes that file.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedsim.ground.errors import PlacedError
from fedsim.settings.contents import CONTENT, START

CODE = ("task", "strategy", "sampler", "partition")
"""Settings that may be ``FILE.py:NAME``."""


def check_trust(values: Mapping[str, Any], file: Path | str, trusted: Iterable[str] = ()) -> None:
    """Refuses settings that name code which the command line does not name.

    ``values``: by flag; of a grid with ``vary``. ``trusted``: what the command line names, as
    ``FILE.py:NAME``, ``package.module:NAME``, a file or a folder of files.

    Raises ``PlacedError``, which names the file, the setting and the flag.
    """
    named = {place: setting for setting, place in named_texts(values) if ":" in place}
    allowed = origins(trusted) if named else set()
    for place, setting in named.items():
        if origin_of(place) not in allowed:
            raise PlacedError(
                f"{file}: its {setting} is {place!r}: a file that only settings name is not "
                f"executed; give --own {place} too (in Python trust_code=True)"
            )


def named_code(values: Mapping[str, Any]) -> list[str]:
    """The code that settings name."""
    return [place for _, place in named_texts(values) if ":" in place]


def origins(trusted: Iterable[str]) -> set[str]:
    """The files and modules that places name; of a folder all files in it."""
    files = set[str]()
    for place in trusted:
        if Path(place).is_dir():
            files |= {origin_of(f"{file}:") for file in Path(place).glob("*.py")}
        else:
            files.add(origin_of(f"{place}:" if place.endswith(".py") else place))
    return files - {""}


def origin_of(place: str) -> str:
    """The file or the module of a place, as ``fedsim.tasks.place.origin`` has it."""
    from fedsim.tasks.place import origin  # a command without such a place needs no tasks

    return origin(place)


def named_texts(
    values: Mapping[str, Any], settings: Collection[str] = CODE
) -> Iterator[tuple[str, str]]:
    """The texts of some settings in all tables of a file, except those of digests.

    Example:
        >>> [*named_texts({"task": "digits", "cells": {"start": {"strategy": "a.py:A"}}})]
        [('task', 'digits'), ('strategy', 'a.py:A')]
    """
    for key, value in values.items():
        if key not in (CONTENT, START):
            yield from _texts(key, value, settings)


def _texts(key: str, value: Any, settings: Collection[str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(name, inner, settings)
    elif key in settings:
        listed = value if isinstance(value, list | tuple) else (value,)
        yield from ((key, text) for text in listed if isinstance(text, str))

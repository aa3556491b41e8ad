"""The files of code that may be executed: those that a command line names, not those of a folder.

A file of settings may come from anybody. Its ``task``, ``strategy``, ``sampler`` and
``partition`` may be ``FILE.py:NAME``, and to read them executes that file.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedsim.ground.errors import PlacedError

CODE = ("task", "strategy", "sampler", "partition")
"""Settings that may be ``FILE.py:NAME``."""


def check_trust(values: Mapping[str, Any], file: Path | str, trusted: Iterable[str] = ()) -> None:
    """Refuses settings that name code which the command line does not name.

    Args:
        values: settings by flag; of a grid with ``vary``.
        file: their file.
        trusted: what the command line names, as ``FILE.py:NAME``, ``package.module:NAME``, a file
            or a folder of files.

    Raises ``PlacedError``, which names the file, the setting and the flag.

    Example:
        >>> check_trust({"task": "digits", "strategy": "fedavgm"}, "run.toml")
        >>> check_trust({"task": "mine.py:TASK"}, "run.toml", ["mine.py:TASK"])
        >>> check_trust({"task": "mine.py:TASK"}, "run.toml")
        Traceback (most recent call last):
        fedsim.ground.errors.PlacedError: run.toml: its task is 'mine.py:TASK': a file that only \
settings name is not executed; give --own mine.py:TASK too (in Python trust_code=True)
    """
    named = {place: setting for setting, place in _places(values) if ":" in place}
    allowed = origins(trusted) if named else set()
    for place, setting in named.items():
        if origin_of(place) not in allowed:
            raise PlacedError(
                f"{file}: its {setting} is {place!r}: a file that only settings name is not "
                f"executed; give --own {place} too (in Python trust_code=True)"
            )


def named_code(values: Mapping[str, Any]) -> list[str]:
    """The code that settings name.

    Example:
        >>> named_code({"task": "mine.py:TASK", "strategy": "dsgd"})
        ['mine.py:TASK']
    """
    return [place for _, place in _places(values) if ":" in place]


def origins(trusted: Iterable[str]) -> set[str]:
    """The files and modules that places name; of a folder all files in it.

    Example:
        >>> origins(["fedsim.tasks.digits:DIGITS", "digits"])
        {'fedsim.tasks.digits'}
    """
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


def _places(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The settings that may name code, with each of their values."""
    vary = values.get("vary")
    for table in (values, vary if isinstance(vary, Mapping) else {}):
        for setting in CODE:
            value = table.get(setting)
            for place in value if isinstance(value, list | tuple) else (value,):
                if isinstance(place, str):
                    yield setting, place

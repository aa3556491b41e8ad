"""A user's own task, found by where it stands: ``FILE.py:NAME``, or ``package.module:NAME``.

So a task is named on the command line and in files of settings, and other processes get it with
its functions (`cloudpickle` takes by value what is in no module that can be imported).
"""

from __future__ import annotations

import sys
import traceback
from copy import copy
from functools import lru_cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from fedsim.errors import UsageError
from fedsim.tasks.base import Task

SEPARATOR = ":"


def load(place: str) -> Task:
    """The task at ``place``; the same object for as long as its file is not changed.

    Args:
        place: a Python file, relative to the current folder, or a module that can be imported;
            then ``:`` and the name of the ``Task`` in it.

    Raises:
        UsageError: there is no such file, module or task, or the file cannot be carried out.

    Example:
        >>> load("fedsim.tasks.digits:DIGITS").name
        'digits'
    """
    origin, _, name = place.rpartition(SEPARATOR)
    if not origin or not name:
        raise _refused(place)
    if not origin.endswith(".py"):
        return _named(_imported(origin, place), name, place)
    path = Path(origin).resolve()
    if not path.is_file():
        raise _refused(place, f"there is no file {origin}")
    return _from_file(path, path.stat().st_mtime_ns, name, place)


def origin(place: str) -> str:
    """The file of ``FILE.py:NAME``, its whole path, or the module; empty for a bare name.

    Example:
        >>> origin("fedsim.tasks.digits:DIGITS"), origin("digits")
        ('fedsim.tasks.digits', '')
    """
    found = place.rpartition(SEPARATOR)[0]
    return str(Path(found).resolve()) if found.endswith(".py") else found


@lru_cache(maxsize=64)
def _from_file(path: Path, changed: int, name: str, place: str) -> Task:
    """``changed``: when the file was, so that a notebook gets its newest text."""
    return _named(_carried_out(path, place), name, place)


def _named(module: ModuleType, name: str, place: str) -> Task:
    task = getattr(module, name, None)
    if not isinstance(task, Task):
        what = f"is of type {type(task).__name__}" if hasattr(module, name) else "is not there"
        known = ", ".join(k for k, v in vars(module).items() if isinstance(v, Task)) or "none"
        raise _refused(place, f"{name!r} {what}, where a fedsim.Task is wanted (there: {known})")
    found = copy(task)  # equal to the original, which keeps its own name in files
    object.__setattr__(found, "place", place)
    return found


def _imported(name: str, place: str) -> ModuleType:
    try:
        return import_module(name)
    except Exception as error:
        raise _refused(place, f"{name} cannot be imported: {_said(error)}") from error


def _carried_out(path: Path, place: str) -> ModuleType:
    """The file's module, which is listed only while it is carried out.

    Dataclasses in it look the module up. What stays unlisted travels to other processes by value.
    """
    name = f"fedsim_task_in_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f", line {frame.lineno}" for frame in frames if frame.filename == str(path)]
        raise _refused(place, f"{path.name}{''.join(lines[-1:])}: {_said(error)}") from error
    finally:
        del sys.modules[name]
    return module


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _refused(place: str, why: str = "") -> UsageError:
    told = f"{why}; " if why else ""
    return UsageError(f"task: {place!r}: {told}it takes FILE.py:NAME or package.module:NAME")

"""A user's own task or strategy by its place: ``FILE.py:NAME``, or ``package.module:NAME``.

The command line and files of settings name it by its place. Other processes get it with its
functions: `cloudpickle` sends what no importable module has by value.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from functools import lru_cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from compressors.usercode import content, import_beside, staying, typed, user_code
from fedsim.ground.errors import UsageError

SEPARATOR = ":"

_REDIRECTS: ContextVar[Mapping[str, str]] = ContextVar("moved", default={})  # noqa: B039 - not changed


@contextmanager
def redirect(files: Mapping[str, str]) -> Iterator[None]:
    """Inside, a place in a file stands for the same name in another, which holds the same."""
    token = _REDIRECTS.set({**_REDIRECTS.get(), **files})
    try:
        yield
    finally:
        _REDIRECTS.reset(token)


def load_object(place: str, setting: str, kind: type[Any], called: str) -> Any:
    """The object at ``place``; the same one as long as its file is not changed.

    It carries the place, and as ``content`` the digest of its file (``compressors.usercode``).

    Args:
        place: a Python file, relative to the current folder, or a module that can be imported;
            then ``:`` and a name in it.
        setting: the beginning of error messages.
        kind: the object's class; a class of that kind stands for its value without settings.
        called: the class in error messages.

    Raises:
        UsageError: there is no such file, module or name, or the file cannot be carried out.

    Example:
        >>> from fedsim.tasks.base import Task
        >>> load_object("fedsim.tasks.digits:DIGITS", "task", Task, "fedsim.Task").name
        'digits'
    """
    container, _, name = place.rpartition(SEPARATOR)
    container = _REDIRECTS.get().get(literal_origin(place), container)
    place = f"{container}{SEPARATOR}{name}"
    try:
        if not container or not name:
            raise _Refused
        if container.endswith(".py"):
            path = Path(container).resolve()
            if not path.is_file():
                raise _Refused(f"there is no file {container}")
            return _from_file(path, content(path), name, place, kind, called)  # type: ignore[arg-type]
        try:
            with user_code(), staying():
                module = import_module(container)
        except Exception as error:
            raise _Refused(f"{container} cannot be imported: {typed(error)}") from error
        return _named(module, _imported(module), name, place, kind, called)
    except _Refused as error:
        reason = f"{error}; " if str(error) else ""
        takes = "it takes FILE.py:NAME or package.module:NAME"
        raise UsageError(f"{setting}: {place!r}: {reason}{takes}") from error


class _Refused(Exception):
    """Why a place is not one."""


def origin(place: str) -> str:
    """The file of ``FILE.py:NAME``, its whole path, or the module; empty for a bare name.

    Example:
        >>> origin("fedsim.tasks.digits:DIGITS"), origin("digits")
        ('fedsim.tasks.digits', '')
    """
    container = literal_origin(place)
    return literal_origin(f"{_REDIRECTS.get().get(container, container)}{SEPARATOR}")


def literal_origin(place: str) -> str:
    """``origin`` of the place itself, also inside of ``redirect``."""
    before = place.rpartition(SEPARATOR)[0]
    return str(Path(before).resolve()) if before.endswith(".py") else before


def set_place(value: Any, place: str, digest: str) -> Any:
    """Returns the task or strategy itself, after noting its place and its file's digest in it."""
    object.__setattr__(value, "place", place)
    object.__setattr__(value, "content", digest)
    return value


def module_digest(module: ModuleType) -> str:
    """The digest of an importable module, with the modules of its package that it imports.

    A module without a package is treated as a file in its folder, unless that is ``site-packages``.
    """
    file, name = Path(module.__file__ or ""), module.__name__
    if not file.is_file() or file.suffix != ".py":
        return ""
    name += ".__init__" if file.name == "__init__.py" else ""
    return content(file, name if "." in name or "site-packages" in file.parts else "")


_IMPORTED: dict[str, tuple[object, str]] = {}


def _imported(module: ModuleType) -> str:
    """The digest of a module when it was first used here: an edit since is not what is executed."""
    digest = module_digest(module)
    import_, first = _IMPORTED.setdefault(module.__name__, (module.__spec__, digest))
    if import_ is not module.__spec__:  # imported or reloaded since
        _IMPORTED[module.__name__] = module.__spec__, digest
    elif first != digest:
        raise _Refused(
            f"{module.__name__}, or a module that it imports, has changed since this process "
            "imported it: start Python again"
        )
    return digest


@lru_cache(maxsize=64)
def _from_file(path: Path, digest: str, name: str, place: str, kind: Any, called: str) -> Any:
    """The object ``name`` of the file's module, which is in ``sys.modules`` only while it executes.

    Dataclasses in it look the module up there. Unlisted modules travel to other processes by value,
    with the modules in the same folder that they import.
    ``digest``: of the file's content, so that a notebook gets its newest text.
    """
    module_name = f"fedsim_own_in_{path.stem}"
    spec = spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[module_name] = module_from_spec(spec)
    try:
        with user_code(), import_beside(path):
            spec.loader.exec_module(module)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f", line {frame.lineno}" for frame in frames if frame.filename == str(path)]
        raise _Refused(f"{path.name}{''.join(lines[-1:])}: {typed(error)}") from error
    finally:
        del sys.modules[module_name]
    return _named(module, digest, name, place, kind, called)


def _named(
    module: ModuleType, digest: str, name: str, place: str, kind: type[Any], called: str
) -> Any:
    def is_kind(thing: object) -> bool:
        return isinstance(thing, kind) or (isinstance(thing, type) and issubclass(thing, kind))

    attribute = getattr(module, name, None)
    if not is_kind(attribute):
        what = f"is of type {type(attribute).__name__}" if hasattr(module, name) else "is not there"
        homes = (module.__name__, kind.__module__)
        candidates = [
            key
            for key, value in vars(module).items()
            if is_kind(value) and getattr(value, "__module__", "") in homes and value is not kind
        ]
        names = ", ".join(candidates) or "none"
        raise _Refused(f"{name!r} {what}, where a {called} is wanted (there: {names})")
    try:
        instance = attribute() if isinstance(attribute, type) else copy(attribute)
    except (TypeError, ValueError) as error:
        raise _Refused(f"{name}(): {error}; name a value with its settings") from error
    return set_place(instance, place, digest)

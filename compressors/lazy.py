"""Packages that import a name when it is first used, so that a command waits for nothing else.

The public names of such a package are written once, as imports under ``if TYPE_CHECKING:`` in its
``__init__``. Type checkers and editors read them there, and so does this module.
"""

import ast
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

Inside = Callable[[], AbstractContextManager[object]]

_inside: dict[str, Inside] = {}
"""By package, what its names are imported inside of."""


def make_lazy(package: str, inside: Inside = nullcontext) -> None:
    """Lets the package ``package``, whose ``__init__`` calls this, import its names on first use.

    ``inside`` makes the context that they are imported in.

    Example:
        >>> import compressors
        >>> compressors.parse("raw"), "parse" in dir(compressors)
        (Raw(), True)
    """
    _inside[package] = inside
    sys.modules[package].__class__ = _Lazy


class _Lazy(ModuleType):
    def __getattr__(self, name: str) -> Any:
        imports = _names(self.__name__).get(name)
        with _inside[self.__name__]():
            if imports is not None:
                value = getattr(import_module(imports), name)
            elif not name.startswith("_") and find_spec(f"{self.__name__}.{name}"):
                value = import_module(f"{self.__name__}.{name}")
            else:
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        vars(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python binds every submodule that is imported; a function of the same name stays.
        if not (isinstance(value, ModuleType) and name in _names(self.__name__)):
            super().__setattr__(name, value)

    def __reduce__(self) -> Any:
        return import_module, (self.__name__,)  # by name, as modules travel to other processes

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *vars(self).get("__all__", ())})


@lru_cache
def _names(package: str) -> dict[str, str]:
    """Name -> module, from the imports under ``if TYPE_CHECKING:``; without submodules."""
    loader: Any = sys.modules[package].__loader__
    body = ast.parse(loader.get_source(package)).body
    blocks = [node for node in body if isinstance(node, ast.If)]
    imports = [line for block in blocks for line in block.body if isinstance(line, ast.ImportFrom)]
    return {
        alias.name: line.module
        for line in imports
        for alias in line.names
        if line.module not in (None, package)
    }

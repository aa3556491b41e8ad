"""A user's own file, which stands in no package, imports the modules that stand beside it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def beside(file: Path) -> Iterator[None]:
    """Inside, a module that stands beside ``file`` can be imported, as by a script of that name.

    Afterwards it is not listed any more, so that it travels to other processes by value with what
    the file defines, and that another file imports its own neighbour of that name.

    Example:
        >>> with beside(Path("somewhere/mine.py")):
        ...     sys.path[0] == str(Path("somewhere").resolve())
        True
    """
    folder, before = str(file.resolve().parent), set(sys.modules)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", None) == f"{folder}/{name}.py":
                del sys.modules[name]

"""The extras of the distribution, and the libraries of each that a command needs at its start."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from fedsim.ground.errors import UsageError

_TABLES = ("pandas", "pyarrow", "matplotlib", "jinja2", "rich", "scipy")

EXTRAS = {
    "report": _TABLES,
    "sim": _TABLES,
    "search": (*_TABLES, "optuna"),
    "ray": ("ray",),
    "completion": ("shtab",),
}
"""Extra -> the modules that are imported with any task; ``pyproject.toml`` has the rest."""


def check_extra(extra: str, what: str) -> None:
    """Raises ``UsageError`` with pip's command where a module of ``extra`` is not installed.

    ``what``: the command or setting that needs it.
    """
    absent = [name for name in EXTRAS[extra] if not _installed(name)]
    if absent:
        raise UsageError(f"{what} needs {', '.join(absent)}: {install(extra)}")


@contextmanager
def named_extra() -> Iterator[None]:
    """Adds pip's command to the error of an import of a module that an extra installs."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (extra := extra_of(error.name)) is None:
            raise
        message = f"{error}: {install(extra)}"
        raise ModuleNotFoundError(message, name=error.name, path=error.path) from error


def extra_of(module: str | None) -> str | None:
    """The first extra that installs ``module``; None without one."""
    name = (module or "").partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if name in modules), None)


def install(extra: str) -> str:
    """Pip's command for an extra."""
    return f"pip install 'fedsim-lab[{extra}]'"


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # a finder of its own refuses it, or a module without a spec
        return False

"""A user's own code: its files and their contents, and its exceptions as errors."""

import ast
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

_OURS = ("compressors", "fedsim", "strategies")
"""Packages whose source is no user's, also where a checkout of them lies beside the file."""

_SITE_FOLDERS = ("site-packages", "dist-packages")


@contextmanager
def staying() -> Iterator[None]:
    """Inside, a user's code runs; afterwards the working directory is the one before.

    Paths on the command line and in settings are relative to it.
    """
    before = os.getcwd()
    try:
        yield
    finally:
        if os.getcwd() != before:
            os.chdir(before)


@contextmanager
def import_beside(file: Path) -> Iterator[None]:
    """Inside, modules and packages in the folder of ``file`` are imported, as by a script there.

    They are read from the disk, also if this process has imported them before. Afterwards those of
    before are listed again and no others, so that they travel to other processes by value with what
    the file defines, and that another file imports its own neighbour of that name. The working
    directory is the one before. No bytecode is written: Python takes that of a file of the same
    size and second, which may have been edited since.

    Example:
        >>> with import_beside(Path("somewhere/mine.py")):
        ...     sys.path[0] == str(Path("somewhere").resolve())
        True
    """
    folder, writes = str(file.resolve().parent), sys.dont_write_bytecode
    before = _unlisted(folder)
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    try:
        with staying():
            yield
    finally:
        sys.dont_write_bytecode = writes
        sys.path.remove(folder)
        _unlisted(folder)
        sys.modules.update(before)


def _unlisted(folder: str) -> dict[str, ModuleType]:
    """The modules that an import finds below a folder, which are not listed any more."""
    if os.path.basename(folder) in _SITE_FOLDERS or not os.path.isdir(folder):
        return {}
    top_names = {name.removesuffix(".py") for name in os.listdir(folder)}.difference(_OURS)
    modules = {}
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] not in top_names:
            continue
        place = f"{folder}/{name.replace('.', '/')}"
        files = getattr(module, "__file__", None), *(getattr(module, "__path__", None) or ())
        real_paths = {os.path.realpath(file) for file in files if file}
        if not real_paths.isdisjoint({f"{place}.py", f"{place}/__init__.py", place}):
            modules[name] = module
    for name in modules:
        sys.modules.pop(name, None)
    return modules


def content(file: Path, name: str = "") -> str:
    """16 hex digits of a Python file and the modules of its folder that it imports, and these.

    Nothing is executed: imports are found anywhere in the text. The digest is the same wherever the
    files lie, and for any name of the first.

    Args:
        file: a Python file.
        name: of its module, if it lies in a package; modules of that package count.

    Raises ``OSError`` where the file cannot be read.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> mine, other = folder / "mine.py", folder / "other.py"
        >>> _ = mine.write_text("import other"), other.write_text("x = 1")
        >>> before = content(mine)
        >>> _ = other.write_text("x = 22")
        >>> content(mine) == before
        False
    """
    package = name.rpartition(".")[0]
    root = file.resolve().parents[name.count(".")]
    lines, waiting, read_modules = list[str](), [(name or "__main__", file, package)], set[str]()
    while waiting:
        module, path, package = waiting.pop()
        if module in read_modules:
            continue
        read_modules.add(module)
        stat = path.stat()
        digest, imports = _read(path.resolve(), stat.st_mtime_ns, stat.st_size)
        lines.append(f"{'' if path == file else module} {digest}")
        for imported in imports:
            waiting += _modules(root, _absolute(imported, package), name)
    return blake2b("\n".join(sorted(lines)).encode(), digest_size=8).hexdigest()


@lru_cache(maxsize=256)
def _read(path: Path, changed: int, size: int) -> tuple[str, tuple[str, ...]]:
    """The digest of a file, and what it imports: ``a.b``, ``.a`` as after ``from``.

    ``changed``, ``size``: as the disk says, so that a file that has changed is read again.
    """
    text = path.read_bytes()
    imports: list[str] = []
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError):  # whoever executes it says so
        nodes = []
    for node in nodes:
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            dot = "." if node.module else ""
            imports += [start, *(f"{start}{dot}{alias.name}" for alias in node.names)]
    return blake2b(text, digest_size=16).hexdigest(), tuple(dict.fromkeys(imports))


def _absolute(target: str, package: str) -> str:
    """The name of a module from that after ``from`` in a module of ``package``."""
    stem = target.lstrip(".")
    dots = len(target) - len(stem)
    if not dots:
        return target
    parts = package.split(".") if package else []
    return ".".join([*parts[: len(parts) - dots + 1], *([stem] if stem else [])])


def _modules(root: Path, target: str, package_name: str) -> Iterator[tuple[str, Path, str]]:
    """The files below ``root`` that an import of ``target`` executes: name, file and package."""
    top = target.partition(".")[0]
    if not top or top in _OURS or (package_name and top != package_name.partition(".")[0]):
        return
    parts = target.split(".")
    for i in range(1, len(parts) + 1):
        name, place = ".".join(parts[:i]), root.joinpath(*parts[:i])
        if (place / "__init__.py").is_file():
            yield name, place / "__init__.py", name
        elif place.with_name(f"{place.name}.py").is_file():
            yield name, place.with_name(f"{place.name}.py"), ".".join(parts[: i - 1])


_INSTALLED = tuple(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib"))


class UserCodeError(RuntimeError):
    """A user's code ended with what is no ``Exception``, or with a text that cannot be encoded."""


def encodable(text: str) -> str:
    """``text`` with lone surrogates, which UTF-8 has no bytes for, as escapes.

    Python reads a file's name that is not UTF-8 so, and errors repeat it.

    Example:
        >>> encodable("no file a\\udcff"), encodable("2 µs")
        ('no file a\\\\udcff', '2 µs')
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def error_text(error: BaseException) -> str:
    """What an error says, as files and messages can hold it; never raises itself.

    Example:
        >>> error_text(ValueError("a\\udcff"))
        'a\\\\udcff'
    """
    try:
        return encodable(str(error))
    except Exception:  # as tracebacks have it
        return "<exception str() failed>"


def typed(error: BaseException) -> str:
    """An error's type and its text; the text alone of one that stands for another.

    Example:
        >>> typed(KeyError("lr"))
        "KeyError: 'lr'"
    """
    text = error_text(error)
    return text if isinstance(error, UserCodeError) else f"{type(error).__name__}: {text}"


def origin(error: BaseException) -> str:
    """Where in a user's own file an error was raised; empty if no such file took part.

    It is the innermost line outside of fedsim, Python's library and installed packages.

    Example:
        >>> try:
        ...     int("x")
        ... except ValueError as error:
        ...     origin(error)
        ''
    """
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        file = frame.f_code.co_filename
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in _OURS or file.startswith(_INSTALLED) or not Path(file).is_file():
            continue
        return encodable(f"{Path(file).name}, line {line}")
    return ""


def located(error: BaseException) -> str:
    """An error's type and text, and the line of the user's file that raised it.

    Example:
        >>> located(KeyError("lr"))
        "KeyError: 'lr'"
    """
    place = origin(error)
    return f"{typed(error)} ({place})" if place else typed(error)


@contextmanager
def user_code() -> Iterator[None]:
    """Inside, a user's code is called: it ends well, or with an ``Exception`` of encodable text.

    ``SystemExit`` and what pytest and asyncio derive from ``BaseException`` would end a thread that
    others wait for, or the process without a word. Ctrl-C stays what it is.

    Example:
        >>> with user_code():
        ...     raise SystemExit(3)
        Traceback (most recent call last):
        compressors.usercode.UserCodeError: SystemExit: 3
    """
    try:
        yield
    except (KeyboardInterrupt, StopIteration):  # a generator's end has what it returns, not a text
        raise
    except BaseException as error:
        if isinstance(error, Exception) and _travels(error):
            raise
        raise UserCodeError(typed(error)).with_traceback(error.__traceback__) from error


def _travels(error: Exception) -> bool:
    """Whether what it says can be sent and written as it is."""
    try:
        str(error).encode()
    except Exception:
        return False
    return True

"""A user's own code: any exception of it becomes an error, whose text any file can hold."""

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PACKAGES = {"compressors", "fedsim", "strategies"}
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
        if package in _PACKAGES or file.startswith(_INSTALLED) or not Path(file).is_file():
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

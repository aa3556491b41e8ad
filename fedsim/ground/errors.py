"""The errors a user can cause, all refused before any work starts; and what makes runs fail."""

import os
import re
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from compressors import NotFinite, UpdateError
from compressors.grammar import Call, read_call
from compressors.usercode import encodable, error_text

C = TypeVar("C")


class UsageError(ValueError):
    """Bad input: the message names the setting, its value and what is allowed."""


class PlacedError(UsageError):
    """Bad input whose message begins with its place: a file, a cell of it, or a call."""


class DataError(UsageError):
    """A data set is not where the task looks for it; the message names the place to put it."""


class NothingToDraw(UsageError):
    """Results have no point for a figure: no message of theirs was used, or no run is done."""


class RunFailed(RuntimeError):
    """A run could not continue (too few clients answered, a weight is not finite)."""


class StoppedEarly(RuntimeError):
    """A callback or a search ended the run; the message has the reason."""


class DeviceFull(RunFailed):
    """The memory of a device is too small; the message has how much more was needed."""


def with_cause(
    error: UpdateError, round_number: int, loss: float, suspected: str | None = None
) -> UpdateError:
    """The error with its round and that round's mean training loss; of ``NotFinite``, the cause.

    ``suspected``: what else than the data and the learning rate may be why.
    """
    usual = "the data hold NaN or infinity, or the learning rate, --lr, is too high"
    causes = f": {suspected or usual}" if isinstance(error, NotFinite) else ""
    return type(error)(f"{error} (round {round_number}, training loss {loss:.4g}{causes})")


def parse_call(text: str, name: str, allowed: str) -> Call:
    """The name, and what is given to it, that a setting's text is (``compressors.grammar``).

    Raises ``UsageError``, which says what is ``allowed``, where it is none.
    """
    try:
        return read_call(text)
    except ValueError as error:
        raise UsageError(f"{name} is {text!r}: {error}; give {allowed}") from error


def named_arguments(call: Call, names: Sequence[str]) -> dict[str, Any]:
    """The arguments of a call by name: those without one have the first names.

    Raises ``ValueError`` where there are too many, or a name is unknown or has two values.
    """
    if len(call.arguments) > len(names):
        takes, many = ", ".join(names) or "none", len(call.arguments)
        raise ValueError(f"it has {many} settings without a name, and takes {takes}")
    arguments = dict(zip(names, call.arguments, strict=False))
    for name in call.named:
        if name not in names:
            raise ValueError(unknown("setting", name, names))
        if name in arguments:
            raise ValueError(f"{name} is given twice")
    return arguments | call.named


def unknown(what: str, name: str, allowed: Iterable[str]) -> str:
    """Words for a name that is none of those known: the nearest one first, then all.

    Example:
        >>> unknown("setting", "temporl", ["method", "temporal"])
        "unknown setting 'temporl' (did you mean temporal?); known are method, temporal"
        >>> unknown("split", "shrds", ["iid", "shards(NUMBER)"])
        "unknown split 'shrds' (did you mean shards(NUMBER)?); known are iid, shards(NUMBER)"
    """
    allowed = list(allowed)
    forms = {form.partition("(")[0]: form for form in reversed(allowed)}
    near = get_close_matches(name.partition("(")[0], forms, n=1)
    meant = f" (did you mean {forms[near[0]]}?)" if near else ""
    return f"unknown {what} {name!r}{meant}; known are {', '.join(allowed) or 'none'}"


def comma(text: str) -> str:
    """Words for a refused text that may have a decimal comma; empty where it has none.

    Example:
        >>> comma("sbc(0,01)"), comma("1,0.1")
        ('; did you mean 0.01, with a decimal point?', '')
    """
    match = re.search(r"(?<![\w.])0,(\d+)(?![\d.])", text)
    return f"; did you mean 0.{match[1]}, with a decimal point?" if match else ""


@contextmanager
def writable(flag: str, path: object) -> Iterator[None]:
    """Raises ``UsageError``, which names the setting ``flag``, where the disk refuses an output."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{flag} is {path}: cannot be written ({error.strerror})") from error


@contextmanager
def writing(folder: object) -> Iterator[None]:
    """Names the folder where the disk refuses a file of it: full, or the folder is gone.

    Raises ``RunFailed`` for an ``OSError``: with room again, the command goes on with what is left.
    """
    try:
        yield
    except OSError as error:
        message = f"{folder} cannot be written ({reason(error)}); once it can be, {RESUMES}"
        raise RunFailed(message) from error


RESUMES = "the same command resumes"
"""The end of why a run failed by its files: with its settings it may well succeed."""


def resumed(message: str, error: BaseException) -> str:
    """The message of a run that failed with this error; ``RESUMES`` ends it where its files did."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    return message if cause is None or message.endswith(RESUMES) else f"{message}; {RESUMES}"


def without_home(text: str) -> str:
    """``text`` as results keep it: ``encodable``, and ``~`` for the user's home folder.

    The folder's name is often the user's.
    """
    home, text = os.path.expanduser("~"), encodable(text)
    return text if len(home) < 2 else re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)


def reason(error: Exception) -> str:
    """Why a file could not be read, without its name: the system's words, or the error's own."""
    system = error.strerror if isinstance(error, OSError) else None
    return system or error_text(error).partition("\n")[0]


def expect(value: object, kind: type, where: str) -> None:
    """Raises ``UsageError`` for a value of another type than a function takes."""
    if not isinstance(value, kind):
        value = reprlib.repr(value)
        raise UsageError(f"{where} takes a {kind.__name__}, and was given {value}")


def names_told(kind: type[C]) -> type[C]:
    """Lets a dataclass refuse, in ``unknown``'s words, a keyword that is not a field of it.

    A class that has ``elsewhere(name)`` has words of its own for some names.
    """
    plain: Any = getattr(kind, "__init__")  # noqa: B009 - of a class that it may have from its base
    fields = list(getattr(kind, "__dataclass_fields__"))  # noqa: B009
    elsewhere: Any = getattr(kind, "elsewhere", lambda name: "")

    @wraps(plain)
    def init(self: Any, *args: Any, **values: Any) -> None:
        for name in values:
            if name not in fields:
                words = elsewhere(name) or unknown("setting", name, fields)
                raise UsageError(f"{kind.__name__}: {words}")
        plain(self, *args, **values)

    type.__setattr__(kind, "__init__", init)
    return kind

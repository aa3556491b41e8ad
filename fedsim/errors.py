"""The errors a user can cause, all refused before any work starts; and what runs fail of."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from compressors import UpdateError


class UsageError(ValueError):
    """Bad input: the message names the setting, its value and what is allowed."""


class DataError(UsageError):
    """A data set is not where the task looks for it; the message says where to put it."""


class RunFailed(RuntimeError):
    """A run could not go on (too few clients answered, a weight is not finite)."""


@contextmanager
def training(round_number: int, loss: float) -> Iterator[None]:
    """Adds to an ``UpdateError`` the round and its mean training loss, and what makes NaN.

    Example:
        >>> with training(3, float("nan")):
        ...     raise UpdateError("tensor 'w' holds NaN")
        Traceback (most recent call last):
        compressors.errors.UpdateError: tensor 'w' holds NaN (round 3, training loss nan: the data \
hold NaN or infinity, or the learning rate, --lr, is too high)
    """
    try:
        yield
    except UpdateError as error:
        diverged = any(word in str(error) for word in ("NaN", "overflow"))
        causes = ": the data hold NaN or infinity, or the learning rate, --lr, is too high"
        raise UpdateError(
            f"{error} (round {round_number}, training loss {loss:.4g}{causes if diverged else ''})"
        ) from error


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Words for a name that is none of those known: the nearest one first, then all.

    Example:
        >>> unknown("setting", "temporl", ["method", "temporal"])
        "unknown setting 'temporl' (did you mean temporal?); known are method, temporal"
    """
    known = list(known)
    near = get_close_matches(name, known, n=1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return f"unknown {what} {name!r}{meant}; known are {', '.join(known)}"

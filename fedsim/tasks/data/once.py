"""Data sets in memory: read once, however many clients and runs ask."""

from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Any, Generic, TypeVar

D = TypeVar("D")


class Once(Generic[D]):
    """A function that reads a data set, kept in memory: asked again for the same, it reads nothing.

    Clients on several threads wait for one copy instead of reading their own.

    Args:
        read: the function; what it is given is hashable.
        copies: how many data sets are kept, those that were asked for last.

    Example:
        >>> read = Once(lambda folder: print("reading", folder))
        >>> read("a"), read("a")
        reading a
        (None, None)
    """

    def __init__(self, read: Callable[..., D], copies: int = 1) -> None:
        self._kept, self._lock = lru_cache(maxsize=copies)(read), Lock()

    def __call__(self, *given: Any) -> D:
        """What the function gives, or gave when it was last given the same."""
        with self._lock:
            return self._kept(*given)

    def forget(self) -> None:
        """Reads anew when it is asked next."""
        self._kept.cache_clear()

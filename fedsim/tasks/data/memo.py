"""Data sets in memory: read once, however many clients and runs ask."""

import os
from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import TypeVar

from fedsim.ground.threads import lock_of_process

D = TypeVar("D")


def read_once(load: Callable[[Path | None, bool], D]) -> Callable[..., D]:
    """A task's ``load`` whose last data set stays in memory: asked again, it reads nothing.

    Several threads wait for one copy instead of reading their own. The folder is the
    given one, whole, else what ``$FEDSIM_DATA`` names, else None.

    Example:
        >>> @read_once
        ... def load(folder, download):
        ...     print("reading", folder.name)
        >>> load(Path("a")), load(Path("a"))
        reading a
        (None, None)
    """
    cached, lock = lru_cache(maxsize=1)(load), lock_of_process()

    @wraps(load)
    def loaded(folder: Path | None = None, download: bool = False) -> D:
        place = folder if folder is not None else os.environ.get("FEDSIM_DATA")
        with lock:
            return cached(Path(place).resolve() if place else None, download)

    return loaded

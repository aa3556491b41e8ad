"""Flower's log while fedsim runs: its strategies write two lines per round."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def flower_quiet(least: int = logging.ERROR) -> Iterator[None]:
    """Inside, Flower logs what is of this level or above; its logger's own level stays as it is.

    Runs of several threads may be inside at once.

    Example:
        >>> log = logging.getLogger("flwr")
        >>> with flower_quiet():
        ...     log.filter(log.makeRecord("flwr", logging.INFO, "", 0, "a round", (), None))
        False
    """

    def loud(record: logging.LogRecord) -> bool:
        return record.levelno >= least

    log = logging.getLogger("flwr")
    log.addFilter(loud)
    try:
        yield
    finally:
        log.removeFilter(loud)

"""A run's settings on their way to another process, with the compressors that a user added."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compressors import CATALOGUE, Row, own_rows
from fedsim.settings.config import RunConfig


@dataclass(frozen=True)
class Cargo:
    """A config; pickled, it brings the rows that a user added to ``CATALOGUE``.

    The rows have to be there before the config: a config is checked when it is made, and a method
    of the user's own would be unknown. Ray's pickle takes what a script or a notebook defines by
    value; what a module defines is imported again on the other side.
    """

    config: RunConfig

    def __reduce__(self) -> tuple[Callable[..., "Cargo"], tuple[Any, ...]]:
        from ray import cloudpickle

        return _unpacked, (own_rows(), cloudpickle.dumps(self.config))


def _unpacked(rows: dict[str, Row], config: bytes) -> Cargo:
    CATALOGUE.update(rows)
    return Cargo(pickle.loads(config))

"""A run's settings on their way to another process, with the compressors that a user added."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

from compressors import CATALOGUE, Row, own_rows
from fedsim.settings.config import RunConfig
from fedsim.settings.controllers import CONTROLLERS, ListedController, own_controllers

_ONE = Lock()  # Flower's threads pickle at once, and numba gives a function its number meanwhile


@dataclass(frozen=True)
class SentConfig:
    """A config; pickled, it brings the rows that a user added to ``CATALOGUE`` and ``CONTROLLERS``.

    The rows have to be there before the config: a config is checked when it is made, and a method
    of the user's own would be unknown. Ray's pickle takes what a script or a notebook defines by
    value; what a module defines is imported again on the other side.
    """

    config: RunConfig

    def __reduce__(self) -> tuple[Callable[..., "SentConfig"], tuple[Any, ...]]:
        from numba import cloudpickle  # the same as Ray's, which need not be imported

        with _ONE:
            rows, controllers = map(cloudpickle.dumps, (own_rows(), own_controllers()))
            return _unpacked, (rows, cloudpickle.dumps(self.config), controllers)


def _unpacked(rows: bytes, config: bytes, controllers: bytes) -> SentConfig:
    added: dict[str, Row] = pickle.loads(rows)
    CATALOGUE.update(added)
    third_party: dict[str, ListedController] = pickle.loads(controllers)
    CONTROLLERS.update(third_party)
    return SentConfig(pickle.loads(config))

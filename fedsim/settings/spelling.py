"""One name per setting, however it is spelled; and what files of settings are called."""

from collections.abc import Mapping
from typing import Any

from fedsim.ground.errors import PlacedError

FILE = "runs.toml"
"""The file in a sweep's folder that lists cells which do not lie on a grid."""

TABLE = "cells"
"""The key in that file under which each cell has a table."""


def underscored(values: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The settings by their names in Python: `batch-size`, as flags have it, is `batch_size`.

    Raises ``PlacedError`` where a setting is given in both spellings.

    Example:
        >>> underscored({"batch-size": 8, "lr": 0.1}, "run.toml")
        {'batch_size': 8, 'lr': 0.1}
    """
    renamed: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name in renamed:
            raise PlacedError(f"{origin}: {name} is given twice, with '-' and with '_'; give one")
        renamed[name] = value
    return renamed

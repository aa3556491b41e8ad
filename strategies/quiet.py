"""Keeps Flower and Ray from reporting usage, unless the user has decided otherwise.

Imported before ``flwr`` and ``ray`` wherever this project imports them. Flower reads its variable
when it is imported: a process that imports ``flwr`` first keeps Flower's telemetry, which is on,
unless its environment says otherwise. ``fedsim doctor`` shows what holds.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

ENVIRONMENT: Mapping[str, str] = dict(os.environ)
"""The environment before this module set its variables."""

FLOWER_FIRST = "flwr" in sys.modules
"""Whether Flower was imported before this module set its variables."""

for _name, _value in {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "GRPC_VERBOSITY": "error",  # Flower sets it when it is imported, which a first run would do
}.items():
    os.environ.setdefault(_name, _value)


@contextmanager
def level_kept() -> Iterator[None]:
    """Leaves the level of Flower's logger as it is, which the import of Flower sets."""
    log = logging.getLogger("flwr")
    before = log.level
    try:
        yield
    finally:
        if log.level != before:
            log.setLevel(before)

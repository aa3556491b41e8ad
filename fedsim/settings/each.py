"""Checks of each setting by itself, without torch: a value that is none is told at once.

A message names the setting, its value and what is allowed; all raise ``UsageError``.
"""

from typing import Any

from fedsim.ground.errors import PlacedError, UsageError
from fedsim.settings.fields import (
    BUFFERS,
    ENGINES,
    LATE,
    MASKING,
    PRECISIONS,
    WEIGHTINGS,
    Settings,
    flag,
)
from fedsim.settings.strategies import check_text

_CHOICES = {
    "engine": ENGINES, "weighting": WEIGHTINGS, "momentum_masking": MASKING,
    "buffers": BUFFERS, "precision": PRECISIONS,
    "late": LATE,
}  # fmt: skip
_ABOVE_ZERO = (
    "temporal", "clients", "cohort", "iterations", "batch_size", "evaluate_every", "test_samples",
    "min_replies", "workers", "checkpoint_every", "timeout", "lr", "server_lr", "proximal",
    "gpus_per_client", "gpus_per_run", "buffer_size", "ask", "max_norm",
)  # fmt: skip
_ALLOWED = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}


def of_type(origin: str, key: str, value: Any, kind: str) -> None:
    """Refuses a value of another type than ``kind``, as ``type_of`` spells it."""
    base = kind.split(" | ")[0]
    if key == "task" and not isinstance(value, str):
        from fedsim.tasks import Task

        if isinstance(value, Task):
            return
    if key == "strategy" and not isinstance(value, str):
        from strategies import Algorithm

        if isinstance(value, Algorithm):
            return
    fits = isinstance(value, _ALLOWED[base]) and (base == "bool" or not isinstance(value, bool))
    if not fits and not (value is None and "None" in kind):
        raise PlacedError(f"{origin}: {key} is {value!r}; it takes {base}")


def alone(config: Settings) -> None:
    """Refuses what no run could be told, setting by setting."""
    for name, allowed in _CHOICES.items():
        value = getattr(config, name)
        if value not in allowed:
            raise UsageError(f"{flag(name)} is {value!r}: it is one of {', '.join(allowed)}")
    if isinstance(config.strategy, str):
        check_text(config.strategy)
    for name in _ABOVE_ZERO:
        value = getattr(config, name)
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{flag(name)} is {value}: it is a number above 0")
    if config.momentum is not None and not 0 <= config.momentum < 1:
        raise UsageError(f"--momentum is {config.momentum}: it lies in [0, 1)")
    if config.validation is not None and not 0 < config.validation < 1:
        raise UsageError(f"--validation is {config.validation:g}: it lies between 0 and 1")
    if config.label is not None and (not config.label.strip() or not config.label.isprintable()):
        raise UsageError(f"--label is {config.label!r}: it is a line of text, and not empty")
    if config.seed < 0:
        raise UsageError(f"--seed is {config.seed}: it is 0 or above")

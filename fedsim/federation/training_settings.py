"""The settings that train a run's model, with the task's defaults filled in."""

from collections.abc import Iterable
from typing import Any

from torch.nn import Parameter

from fedsim.federation.trainer import Trainer, make_optimizer
from fedsim.settings.config import RunConfig
from fedsim.settings.strategies import flags_of

_CELL = ("task", "method", "temporal", "gradient", "seed")  # columns of their own


def entries(trainer: Trainer) -> int:
    """How many entries of the model are trained, and travel: those that require a gradient."""
    return sum(p.numel() for p in trainer.parameters.values())


def settings(config: RunConfig, parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The settings that trained a run's model, by name, as JSON has them.

    `lr`, `momentum` and `weight_decay` are the optimizer's, a list where its groups of parameters
    differ; None: it has none. `lr_steps` are the task's: from which iteration the rate is times
    which factor.

    Args:
        config: the run.
        parameters: the model's; the task makes its optimizer of them.

    Example:
        >>> import torch
        >>> trained = settings(RunConfig(task="digits"), [Parameter(torch.zeros(1))])
        >>> trained["optimizer"], trained["batch_size"], trained["clients"]
        ('SGD', 32, 4)
    """
    plan, values = config.plan, config.filled()
    optimizer = make_optimizer(config, parameters)
    groups = optimizer.param_groups
    return {
        "optimizer": type(optimizer).__name__,
        "weight_decay": _common([g.get("weight_decay") for g in groups]),
        "lr_steps": [list(step) for step in plan.task.lr_steps],
        **{k: v for k, v in values.items() if k not in _CELL and v is not None},
        **{k: _common([g.get(k) for g in groups]) for k in ("lr", "momentum")},
        **flags_of(plan.algorithm),
    }


def _common(values: list[Any]) -> Any:
    """The value that all groups have; else theirs, in order."""
    numbers = [float(value) if isinstance(value, int | float) else None for value in values]
    return numbers[0] if len(set(numbers)) == 1 else numbers

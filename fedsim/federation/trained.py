"""What trains a run's model: every setting of learning, with the task's defaults filled in."""

from collections.abc import Iterable
from typing import Any

from torch.nn import Parameter

from compressors import text
from fedsim.federation.aggregation import server_rate
from fedsim.federation.trainer import Trainer, make_optimizer
from fedsim.settings.config import RunConfig
from fedsim.settings.strategies import takes

YOUNGER = ("controller", "proximal", "validation")
"""Settings that are told only where they are given: older results have none."""
_PLANNED = ("batch_size", "clients", "cohort", "partition", "iterations", "evaluate_every")


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
    plan = config.plan
    optimizer = make_optimizer(config, parameters)
    groups = optimizer.param_groups
    return {
        "optimizer": type(optimizer).__name__,
        **{k: _common([g.get(k) for g in groups]) for k in ("lr", "momentum", "weight_decay")},
        "lr_steps": [list(step) for step in plan.task.lr_steps],
        **{name: getattr(plan, name) for name in _PLANNED},
        "test_samples": config.test_samples,
        "strategy": plan.strategy,
        "server_lr": server_rate(config),
        "weighting": config.weighting,
        "downlink": text(plan.downlink),
        "momentum_masking": plan.masks,
        "buffers": config.buffers,
        "precision": config.precision,
        **{k: v for k in YOUNGER if (v := getattr(config, k)) is not None},
        **_of_asynchronous(config),
    }


def _of_asynchronous(config: RunConfig) -> dict[str, Any]:
    """What decides an asynchronous run beside that; empty for the others."""
    own = {"staleness", "buffer_size"} & takes(config.strategy)
    given = {name: getattr(config, name) for name in sorted(own, reverse=True)}
    timed = config.plan.algorithm.clock != "rounds"
    return given | ({"network": config.network} if timed else {})


def _common(values: list[Any]) -> Any:
    """The value that all groups have; else theirs, in order."""
    numbers = [float(value) if isinstance(value, int | float) else None for value in values]
    return numbers[0] if len(set(numbers)) == 1 else numbers

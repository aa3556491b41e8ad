"""From a run's settings to its server strategy."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi

from fedsim.federation.trainer import lr_factor, make_optimizer
from fedsim.settings.config import RunConfig
from fedsim.settings.resolved import CODED, WIDTH
from strategies import (
    Aggregate,
    Buffers,
    Compressed,
    DelayedDSGD,
    InNetwork,
    Majority,
    Stepped,
    natural_code,
)
from strategies.server.memory import Remembering

SERVER_OPTIMIZERS: dict[str, tuple[Callable[..., FedAvg], str]] = {
    "fedavg": (FedAvg, ""),
    "fedavgm": (partial(FedAvgM, server_momentum=0.9), "server_learning_rate"),
    "fedadagrad": (FedAdagrad, "eta"),
    "fedadam": (FedAdam, "eta"),
    "fedyogi": (FedYogi, "eta"),
}
"""Flower's strategies by the names that users type, and what each calls its learning rate.

Flower's FedAvgM has no momentum unless told (it is FedAvg then): 0.9 as in Hsu et al. 2019.
"""


def make_strategy(config: RunConfig, buffers: Buffers | None = None) -> Remembering:
    """The strategy of a run: our own for ``dsgd``, votes and switches, or ``Compressed``.

    ``buffers``: what the model has beside its parameters, if anything.
    """
    plan = config.plan
    common: dict[str, Any] = {
        "clients": plan.clients,
        "cohort": plan.cohort,
        "required": plan.min_replies,
        "seed": config.seed,
        "timeout": config.timeout,
        "buffers": buffers,
    }
    up, down = plan.method.compressor, plan.downlink
    if config.strategy == "gradients":
        common |= {"weighting": config.weighting, "factor": lambda n: lr_factor(plan.task, n - 1)}
        return Stepped(up, down, optimizer=partial(make_optimizer, config), **common)
    if config.strategy in ("dsgd", *CODED):
        aggregate = _aggregate(config)
        return DelayedDSGD(up, down, weighting=config.weighting, aggregate=aggregate, **common)
    make, rate = SERVER_OPTIMIZERS[config.strategy]
    settings: dict[str, Any] = {
        "fraction_evaluate": 0.0,
        "min_train_nodes": plan.min_replies,
        "min_available_nodes": plan.cohort,
    }
    if config.server_lr is not None:
        settings[rate] = config.server_lr
    return Compressed(make(**settings), up, down, **common)


def server_rate(config: RunConfig) -> float | None:
    """The learning rate of the server's optimizer, Flower's default where none is given.

    None: the strategy has none of its own.
    """
    make, rate = SERVER_OPTIMIZERS.get(config.strategy, (None, ""))
    if config.server_lr is not None or make is None or not rate:
        return config.server_lr
    return float(signature(make).parameters[rate].default)


def _aggregate(config: RunConfig) -> Aggregate | None:
    """What a run's uplinks become in place of their mean; None for the mean."""
    if config.strategy == "majority":
        return Majority(config.seed)
    natural = natural_code(config.plan.method.compressor)
    if config.strategy != "innetwork" or natural is None:  # the plan refuses a switch without
        return None
    return InNetwork(natural, WIDTH)

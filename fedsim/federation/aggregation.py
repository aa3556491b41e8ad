"""From a run's settings to its server strategy."""

from functools import partial
from typing import Any

from fedsim.federation.trainer import lr_factor, make_optimizer
from fedsim.settings.combination import Parts
from fedsim.settings.config import RunConfig
from fedsim.settings.strategies import STRATEGIES
from strategies import Buffers, ChannelStrategy


def make_strategy(config: RunConfig, buffers: Buffers | None = None) -> ChannelStrategy:
    """The strategy of a run, as the table says.

    ``buffers``: what the model has beside its parameters, if anything.
    """
    plan = config.plan
    common: dict[str, Any] = {
        "clients": plan.clients,
        "cohort": plan.ask,
        "required": plan.required,
        "seed": config.seed,
        "timeout": config.timeout,
        "buffers": buffers,
        "late": config.late,
        "catch_up": config.catch_up,
        "max_norm": config.max_norm,
    }
    parts = Parts(
        uplink=plan.method.compressor,
        downlink=plan.downlink,
        common=common,
        weighting=config.weighting,
        server_lr=config.server_lr,
        optimizer=partial(make_optimizer, config),
        factor=lambda round_number: lr_factor(plan.task, round_number - 1),
        staleness=config.staleness,
        buffer_size=config.buffer_size,
    )
    return STRATEGIES[config.strategy].build(parts)


def server_rate(config: RunConfig) -> float | None:
    """The learning rate of the server's optimizer, Flower's default where none is given.

    None: the strategy has none of its own.
    """
    given = config.server_lr
    return STRATEGIES[config.strategy].rate() if given is None else given

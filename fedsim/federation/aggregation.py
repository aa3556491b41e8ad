"""The server strategy of a run, made from its settings."""

from dataclasses import fields, replace
from functools import partial
from typing import Any

from fedsim.federation.trainer import lr_factor, make_optimizer
from fedsim.settings.config import RunConfig
from fedsim.settings.methods import compressor_of
from strategies import Buffers, ChannelStrategy, DelayedDSGD, build
from strategies.server.edges import EdgeServers


def make_strategy(
    config: RunConfig, buffers: Buffers | None = None, unused: frozenset[str] = frozenset()
) -> ChannelStrategy:
    """The strategy of a run: its algorithm, with the task's optimizer where it has one.

    Args:
        config: the run's settings.
        buffers: the model's buffers, if it has any.
        unused: names of parameters that the loss may not reach (``Trainer.unused``).
    """
    plan = config.plan
    task: dict[str, Any] = {
        "optimizer": partial(make_optimizer, config),
        "factor": lambda round_number: lr_factor(plan.task, round_number - 1),
        "unused": unused,
    }
    names = {f.name for f in fields(plan.algorithm)}
    rule = replace(plan.algorithm, **{name: x for name, x in task.items() if name in names})
    strategy = build(
        rule,
        plan.method.compressor,
        plan.downlink,
        clients=plan.clients,
        cohort=plan.ask,
        required=plan.required,
        seed=config.seed,
        timeout=config.machine.timeout,
        buffers=buffers,
        late=config.clients.late,
        catch_up=config.clients.catch_up,
        max_norm=config.clients.max_norm,
    )
    tree = None if plan.network is None else plan.network.tree
    if tree is not None:
        assert isinstance(strategy, DelayedDSGD)  # checks: check_tree
        method = compressor_of(tree.method) if tree.method else plan.method.compressor
        weighting, seed = plan.algorithm.weighs, config.seed
        strategy.edges = EdgeServers(tree.groups, plan.clients, method, weighting, seed)
    if config.clients.min_replies is None and plan.rules.plain:
        strategy.awaited = plan.clients
    return strategy

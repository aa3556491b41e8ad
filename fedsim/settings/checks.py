"""Every check of a run's settings together; ``each`` has those of each setting by itself.

A message names the setting, its value and what is allowed; all raise ``UsageError``.
"""

from functools import partial

import torch
from torch.nn import Parameter
from torch.optim import SGD, Optimizer

from compressors import Raw
from fedsim.ground.errors import UsageError
from fedsim.settings import collective, moving, roundless
from fedsim.settings.differences import check_added
from fedsim.settings.fields import WEIGHTINGS, Settings, flag
from fedsim.settings.methods import corrects_momentum
from fedsim.settings.resolved import Plan
from fedsim.settings.strategies import FLAGS, STRATEGIES, takes
from fedsim.tasks.data import partition as partitions
from strategies import Asked, Refused
from strategies.algorithms.base import momentum_of


def together(config: Settings, plan: Plan) -> None:
    """Refuses settings that do not go together, defaults filled in."""
    if plan.temporal > plan.iterations:
        raise UsageError(
            f"--temporal is {plan.temporal}: a round has at most --iterations "
            f"({plan.iterations}) local iterations"
        )
    if plan.cohort > plan.clients:
        raise UsageError(f"--cohort is {plan.cohort}: there are {plan.clients} clients")
    _clock(config, plan)
    if plan.min_replies > plan.cohort:
        raise UsageError(f"--min-replies is {plan.min_replies}: a cohort has {plan.cohort} clients")
    _strategy(config, plan)
    collective.check_relay(config, plan)
    collective.check_allreduce(config, plan)
    if config.proximal is not None and plan.algorithm.gradients:
        raise UsageError(
            f"--proximal is {config.proximal:g}: strategy {plan.strategy} sends the gradient at "
            "the model itself, where nothing pulls"
        )
    _momentum(config, plan)
    moving.check(config, plan)


def _clock(config: Settings, plan: Plan) -> None:
    """What simulated time decides needs a clock that is the same on every machine."""
    if not plan.cohort <= plan.ask <= plan.clients:
        raise UsageError(
            f"--ask is {plan.ask}: it lies between the cohort ({plan.cohort}) and the number of "
            f"clients ({plan.clients})"
        )
    if config.catch_up and isinstance(plan.downlink, Raw):
        raise UsageError(
            "--catch-up is given and --downlink is raw: the model is then as small as one update; "
            "give a --downlink that compresses, such as 'sbc(0.05)'"
        )
    if plan.rules.by_the_clock and (plan.network is None or plan.network.depends):
        timed = [name for name in ("ask", "deadline", "availability") if getattr(config, name)]
        raise UsageError(
            f"{flag(timed[0])} is {getattr(config, timed[0])}: it goes by simulated time; give "
            "--network with a time per iteration, such as '4g, compute=20ms', and without coding"
        )
    if plan.network is not None and plan.network.trace is not None:
        plan.network.trace.of(plan.clients)  # raises: a client that the file lacks
    if plan.rules.availability is not None and plan.rules.availability.trace is not None:
        plan.rules.availability.trace.of(plan.clients)


def partition(plan: Plan) -> None:
    """Refuses a partition that is not known."""
    partitions.check(plan.partition)


def _strategy(config: Settings, plan: Plan) -> None:
    """What the strategy takes, and what it goes with."""
    for name in FLAGS:
        value = getattr(config, name)
        if value in (None, WEIGHTINGS[0]) or name in takes(config.strategy):
            continue
        taking = [other for other in STRATEGIES if name in takes(other)]
        why = ""
        if name == "weighting":
            why = (
                "; a majority and a switch count every client once, and Flower's strategies "
                "weight by samples"
            )
        raise UsageError(
            f"{flag(name)} is {value!r}: it belongs to {' and '.join(taking)}, and --strategy is "
            f"{plan.strategy!r}{why}"
        )
    if plan.algorithm.clock != "rounds":
        roundless.check(config, plan)
    method = config.method, plan.method.compressor
    check_added(*method, config.downlink, plan.downlink, plan.algorithm.serves)
    try:
        plan.algorithm.refuse(
            Asked(
                name=plan.strategy, method=config.method, uplink=plan.method.compressor,
                temporal=plan.temporal, cohort=plan.cohort, required=plan.required,
                masks=plan.masks, clients=plan.clients, late=config.late, network=plan.network,
                task=plan.task.name, optimizer=partial(_optimizer, config, plan),
                corrects=corrects_momentum(plan.method.compressor),
            )
        )  # fmt: skip
    except Refused as error:
        raise UsageError(str(error)) from error


def _optimizer(config: Settings, plan: Plan) -> Optimizer:
    """One as clients have it, of a single parameter."""
    made = plan.task.optimizer([Parameter(torch.zeros(1))])
    for group in made.param_groups:
        given = {"lr": config.lr, "momentum": config.momentum}
        group |= {key: value for key, value in given.items() if value is not None and key in group}
    return made


def _momentum(config: Settings, plan: Plan) -> None:
    """The clients' momentum is kept by their optimizer or by the method, never by both."""
    if corrects_momentum(plan.downlink):
        raise UsageError(
            f"--downlink is {config.downlink!r}, which keeps a client's momentum: give it as "
            "--method"
        )
    corrected = corrects_momentum(plan.method.compressor)
    if config.momentum is None and not corrected:
        return
    optimizer = _optimizer(config, plan)
    if not isinstance(optimizer, SGD):
        if config.momentum is None:
            cause = f"--method is {plan.method.text}, which keeps the momentum of the clients' SGD"
        else:
            cause = f"--momentum is {config.momentum:g}: it is a setting of SGD"
        kind = type(optimizer).__name__
        raise UsageError(f"{cause}, and task {plan.task.name} trains with {kind}")
    if corrected:
        _corrected(plan, optimizer)


def _corrected(plan: Plan, optimizer: SGD) -> None:
    """Momentum correction (DGC) stands for the clients' momentum, one local step at a time."""
    name = plan.method.text
    if used := momentum_of(optimizer):
        raise UsageError(
            f"--method is {name}, which keeps the clients' momentum, and their SGD has momentum "
            f"{used:g} of its own: give --momentum 0"
        )
    if plan.temporal != 1:
        raise UsageError(
            f"--method is {name}, which corrects momentum step by step: give --temporal 1, "
            f"not {plan.temporal}"
        )

"""Every check of a run's settings together; ``each`` has those of each setting by itself.

A message names the setting, its value and what is allowed; all raise ``UsageError``.
"""

import torch
from torch.nn import Parameter
from torch.optim import SGD

from compressors import Raw
from fedsim.errors import UsageError
from fedsim.settings import collective, moving, roundless
from fedsim.settings.combination import Combination
from fedsim.settings.differences import check_added
from fedsim.settings.fields import Settings, flag
from fedsim.settings.methods import corrects_momentum
from fedsim.settings.resolved import Plan
from fedsim.settings.strategies import STRATEGIES
from fedsim.tasks.data import partition as partitions


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
    if config.proximal is not None and STRATEGIES[config.strategy].gradients:
        raise UsageError(
            f"--proximal is {config.proximal:g}: strategy {config.strategy} sends the gradient at "
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
    strategy = STRATEGIES[config.strategy]
    if config.server_lr is not None and "server_lr" not in strategy.takes:
        raise UsageError(f"--server-lr is {config.server_lr}: strategy {config.strategy} has none")
    if config.weighting != "uniform" and "weighting" not in strategy.takes:
        taking = [name for name, other in STRATEGIES.items() if "weighting" in other.takes]
        raise UsageError(
            f"--weighting is {config.weighting!r}: it belongs to {' and '.join(taking)}; a "
            "majority and a switch count every client once, and Flower's strategies weight by "
            "samples"
        )
    for name in ("staleness", "buffer_size"):
        if getattr(config, name) is not None and name not in strategy.takes:
            taking = [key for key, other in STRATEGIES.items() if name in other.takes]
            raise UsageError(
                f"{flag(name)} is {getattr(config, name)!r} and --strategy is {config.strategy!r}: "
                f"it belongs to {' and '.join(taking)}"
            )
    if strategy.driven:
        roundless.check(config, plan)
    method = config.method, plan.method.compressor
    check_added(*method, config.downlink, plan.downlink, strategy.differences)
    strategy.check(
        Combination(
            method=config.method, uplink=plan.method.compressor, temporal=plan.temporal,
            cohort=plan.cohort, required=plan.required, masks=plan.masks, clients=plan.clients,
            server_lr=config.server_lr, staleness=config.staleness, network=plan.network,
            late=config.late,
        )
    )  # fmt: skip


def _momentum(config: Settings, plan: Plan) -> None:
    """The clients' momentum is kept by their optimizer or by the method, never by both."""
    if corrects_momentum(plan.downlink):
        raise UsageError(
            f"--downlink is {config.downlink!r}, which keeps a client's momentum: give it as "
            "--method"
        )
    corrected = corrects_momentum(plan.method.compressor)
    controls, own = STRATEGIES[config.strategy].controls, STRATEGIES[config.strategy].momentum
    if config.momentum is None and not corrected and not controls and not own:
        return
    optimizer = plan.task.optimizer([Parameter(torch.zeros(1))])
    if not isinstance(optimizer, SGD):
        if own and config.momentum is None and not corrected:
            return
        if controls:
            cause = f"--strategy is {config.strategy}, whose clients train with SGD"
        elif config.momentum is None:
            cause = f"--method is {plan.method.text}, which keeps the momentum of the clients' SGD"
        else:
            cause = f"--momentum is {config.momentum:g}: it is a setting of SGD"
        kind = type(optimizer).__name__
        raise UsageError(f"{cause}, and task {plan.task.name} trains with {kind}")
    if controls:
        moving.check_plain(config, plan, optimizer)
    if own:
        moving.check_momentum(config, optimizer)
    if corrected:
        _corrected(config, plan, optimizer)


def _corrected(config: Settings, plan: Plan, optimizer: SGD) -> None:
    """Momentum correction (DGC) stands for the clients' momentum, one local step at a time."""
    name = plan.method.text
    if used := moving.momentum(config, optimizer):
        raise UsageError(
            f"--method is {name}, which keeps the clients' momentum, and their SGD has momentum "
            f"{used:g} of its own: give --momentum 0"
        )
    if plan.temporal != 1:
        raise UsageError(
            f"--method is {name}, which corrects momentum step by step: give --temporal 1, "
            f"not {plan.temporal}"
        )

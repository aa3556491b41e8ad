"""What a controller goes with, and what control variates do."""

from torch.optim import SGD

from fedsim.controllers import parse
from fedsim.errors import UsageError
from fedsim.settings.fields import Settings
from fedsim.settings.methods import corrects_momentum, takes_fraction
from fedsim.settings.resolved import Plan
from fedsim.settings.strategies import STRATEGIES


def check(config: Settings, plan: Plan) -> None:
    """Refuses an unknown controller, and one that moves or needs what the run does not have."""
    if config.controller is None:
        return
    controller, said = parse(config.controller), f"--controller is {config.controller!r}"
    if STRATEGIES[config.strategy].driven:
        raise UsageError(
            f"{said} and --strategy is {config.strategy!r}: a controller goes by rounds, which an "
            "asynchronous server does not have"
        )
    if STRATEGIES[config.strategy].differences:
        raise UsageError(
            f"{said} and --strategy is {config.strategy!r}, whose sums are of one method"
        )
    if "p" in controller.moves:
        _fraction(config, said)
    if "n" in controller.moves:
        _delay(config, plan, said)
    if config.late == "count":
        raise UsageError(
            f"{said} and --late is 'count': an update of an earlier round is read by another "
            "order; give --late hold or drop"
        )
    if plan.network is None and "network" in controller.needs:
        raise UsageError(f"{said}, which goes by the clients' links: give --network")
    if plan.network is not None and plan.network.depends:
        raise UsageError(
            f"{said} and --network is {config.network!r}: what a controller is told of the time "
            "must be the same in every run; give the network a compute time, such as compute=20ms"
        )


def _fraction(config: Settings, said: str) -> None:
    if not takes_fraction(config.method):
        raise UsageError(
            f"{said}, which moves p, and --method is {config.method!r}: it has no place for a "
            "fraction; write {p} where it belongs, such as 'topk({p}) | float32 | golomb'"
        )
    if STRATEGIES[config.strategy].coded:
        raise UsageError(
            f"{said}, which moves p, and --strategy is {config.strategy!r}, whose codes do not "
            "change"
        )


def _delay(config: Settings, plan: Plan, said: str) -> None:
    if STRATEGIES[config.strategy].gradients:
        raise UsageError(
            f"{said}, which moves n, and --strategy is {config.strategy!r}, which has n = 1"
        )
    if corrects_momentum(plan.method.compressor):
        raise UsageError(
            f"{said}, which moves n, and --method is {plan.method.text}, which has n = 1"
        )


def check_plain(config: Settings, plan: Plan, optimizer: SGD) -> None:
    """Refuses a momentum, and rates that differ, beside control variates.

    Their change is the way that a client went over its learning rate: the mean gradient of plain
    SGD (Karimireddy et al. 2020, Algorithm 1).
    """
    said = f"--strategy is {config.strategy}, whose control variates are those of plain SGD"
    if used := momentum(config, optimizer):
        raise UsageError(f"{said}, and the clients' momentum is {used:g}: give --momentum 0")
    if len({group["lr"] for group in optimizer.param_groups}) > 1 and config.lr is None:
        raise UsageError(f"{said}, and task {plan.task.name} has several learning rates: give --lr")
    if corrects_momentum(plan.method.compressor):
        raise UsageError(f"{said}, and --method is {plan.method.text}, which keeps a momentum")


def momentum(config: Settings, optimizer: SGD) -> float:
    """The clients' momentum: ``--momentum``, else the largest of the task's."""
    own: float = max(group["momentum"] for group in optimizer.param_groups)
    return own if config.momentum is None else config.momentum


def check_momentum(config: Settings, optimizer: SGD) -> None:
    """Refuses a momentum of the clients where the server has it: each step would have two."""
    if used := momentum(config, optimizer):
        raise UsageError(
            f"--strategy is {config.strategy}, whose server has the momentum, and the clients' "
            f"is {used:g}: give --momentum 0"
        )

"""What a controller goes with."""

from fedsim.ground.errors import UsageError
from fedsim.settings.controllers import parse
from fedsim.settings.fields import Settings
from fedsim.settings.methods import corrects_momentum, takes_fraction
from fedsim.settings.resolved import Plan


def check(config: Settings, plan: Plan) -> None:
    """Refuses an unknown controller, and one that moves or needs what the run does not have."""
    if config.controller is None:
        return
    controller, said = parse(config.controller), f"--controller is {config.controller!r}"
    if plan.algorithm.clock != "rounds":
        raise UsageError(
            f"{said} and --strategy is {plan.strategy!r}: a controller goes by rounds, which an "
            "asynchronous server does not have"
        )
    if plan.algorithm.serves:
        raise UsageError(
            f"{said} and --strategy is {plan.strategy!r}, whose sums are of one method"
        )
    if "p" in controller.moves:
        _fraction(config, plan, said)
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


def _fraction(config: Settings, plan: Plan, said: str) -> None:
    if not takes_fraction(config.method):
        raise UsageError(
            f"{said}, which moves p, and --method is {config.method!r}: it has no place for a "
            "fraction; write {p} where it belongs, such as 'topk({p}) | float32 | golomb'"
        )
    if plan.algorithm.coded:
        raise UsageError(
            f"{said}, which moves p, and --strategy is {plan.strategy!r}, whose codes do not "
            "change"
        )


def _delay(config: Settings, plan: Plan, said: str) -> None:
    if plan.algorithm.gradients:
        raise UsageError(
            f"{said}, which moves n, and --strategy is {plan.strategy!r}, which has n = 1"
        )
    if corrects_momentum(plan.method.compressor):
        raise UsageError(
            f"{said}, which moves n, and --method is {plan.method.text}, which has n = 1"
        )

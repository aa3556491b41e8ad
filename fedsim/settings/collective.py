"""Collectives: what every client makes of all messages itself, and what they go with."""

from compressors import Raw
from fedsim.ground.errors import UsageError
from fedsim.network.spec import ALLREDUCE
from fedsim.settings.fields import Settings, flag
from fedsim.settings.resolved import Plan
from strategies import Relay


def check_relay(config: Settings, plan: Plan) -> None:
    """Refuses what relayed messages do not go with: clients make the uplinks' mean, and no more."""
    if not isinstance(plan.downlink, Relay):
        return
    told = f"--downlink is {Relay.codec_id!r}"
    if config.weighting == "nova":
        raise UsageError(
            f"{told} and --weighting is 'nova': clients are not told how many local iterations the "
            "others did; give uniform or samples"
        )
    if not plan.algorithm.averages:
        raise UsageError(
            f"{told} and --strategy is {plan.strategy!r}: every client makes the model of the "
            "others' messages itself: their mean, as of dsgd"
        )
    for name in ("controller", "catch_up"):
        if getattr(config, name):
            raise UsageError(
                f"{told} and {flag(name)} is {getattr(config, name)!r}: "
                + ("clients are not told at which fraction the others encoded; leave one of the "
                   "two out" if name == "controller" else
                   "messages are passed on for one round, and who missed it is sent the model; "
                   "leave one of the two out")
            )  # fmt: skip


def check_allreduce(config: Settings, plan: Plan) -> None:
    """Refuses what a ring allreduce does not go with: it adds up the floats of all clients."""
    network = plan.network
    if network is None or network.topology != "allreduce":
        return
    told = f"--network has topology=allreduce and {{}}: {ALLREDUCE}"
    if not isinstance(plan.method.compressor, Raw):
        raise UsageError(told.format(f"--method is {config.method!r}"))
    if not isinstance(plan.downlink, Raw):
        raise UsageError(told.format(f"--downlink is {config.downlink!r}"))
    if not plan.algorithm.averages:
        raise UsageError(told.format(f"--strategy is {plan.strategy!r}"))
    if config.controller is not None:
        raise UsageError(told.format(f"--controller is {config.controller!r}"))
    if not plan.clients == plan.cohort == plan.required or not plan.rules.plain:
        names = ("cohort", "min_replies", "ask", "deadline", "dropout", "availability")
        given = [name for name in names if getattr(config, name) is not None]
        raise UsageError(told.format(f"{flag(given[0])} is {getattr(config, given[0])}"))

"""What edge servers (``topology=tree(...)``) do not go with, in one place."""

from compressors import Compressor, Raw
from compressors.whole.keepers import needs_server
from fedsim.ground.errors import UsageError
from fedsim.settings.declarations import flag
from fedsim.settings.fields import Settings
from fedsim.settings.methods import compressor_of, corrects_momentum
from fedsim.settings.plans import Plan
from fedsim.settings.samplers.base import LOCAL_LOSS, SAMPLES
from strategies import Relay


def check_tree(config: Settings, plan: Plan) -> None:
    """Refuses what edge servers do not go with.

    An edge server averages the updates of a round, and sends the mean when the last of its clients
    has answered. So it takes rounds that wait, and a strategy that makes the mean.

    Raises ``UsageError``, which names the setting and its value.
    """
    tree = None if plan.network is None else plan.network.tree
    if tree is None:
        return
    start = f"--network has {tree.groups} edge servers (topology=tree)"
    if tree.groups > plan.clients:
        raise UsageError(f"{start}: groups is at most the number of clients, {plan.clients}")
    if not plan.algorithm.averages:
        raise UsageError(
            f"{start} and --strategy is {plan.strategy!r}: edge servers send the mean of their "
            "clients' updates; give --strategy dsgd, with --weighting uniform or samples"
        )
    if isinstance(plan.downlink, Relay):
        raise UsageError(
            f"{start} and --downlink is {config.downlink!r}: clients would need each other's "
            "messages; give raw or a method"
        )
    if config.controller is not None:
        raise UsageError(
            f"{start} and --controller is {config.controller!r}: what it orders and reads is not "
            "counted on the way to edge servers; leave one of the two out"
        )
    if plan.rules.late:
        name = "deadline" if plan.rules.deadline is not None else "ask"
        raise UsageError(
            f"{start} and {flag(name)} is {getattr(config.clients, name)}: an edge server waits "
            "for all of its clients; leave one of the two out"
        )
    if {SAMPLES, LOCAL_LOSS} & {*plan.draws.needs}:
        raise UsageError(
            f"{start} and --sampler is {plan.sampler!r}: what it asks clients for is not counted "
            "on the way to edge servers; give a sampler such as uniform or link(fastest)"
        )
    _method(tree.method, start, plan.method.compressor)


def _method(text: str, start: str, uplink: Compressor) -> None:
    """Refuses a method by which a server cannot send a mean."""
    try:
        method = compressor_of(text) if text else uplink
    except UsageError as error:
        raise UsageError(f"--network: topology: method: {error}") from None
    cause = ""
    if corrects_momentum(method):
        cause = "keeps a client's momentum"
    elif other := needs_server(method):
        cause = f"has messages that strategy {other} alone reads"
    if cause:
        which = f"their method is {text!r}, which" if text else "they encode as --method, which"
        raise UsageError(
            f"{start} and {which} {cause}; give tree(..., method={Raw.codec_id}) or another method"
        )

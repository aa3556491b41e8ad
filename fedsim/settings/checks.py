"""Which settings of a run go together; ``groups`` and ``config`` check each by itself.

A message names the setting, its value and what is allowed; all raise ``UsageError``.
"""

import math
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch.optim import SGD

from compressors import Compressor, Raw
from compressors.whole.growth import always_grows
from compressors.whole.keepers import needs_server
from fedsim.ground.errors import UsageError
from fedsim.network.spec import ALLREDUCE
from fedsim.settings.controllers import parse_controller
from fedsim.settings.declarations import flag
from fedsim.settings.fields import SETTINGS, Settings
from fedsim.settings.groups import EXACT, NEAREST
from fedsim.settings.methods import compressor_of, corrects_momentum, takes_fraction
from fedsim.settings.plans import Plan, optimizer_of
from fedsim.settings.samplers.base import LINKS, LOCAL_LOSS, SAMPLES, SECONDS, TRAIN_LOSS
from fedsim.tasks.data import partition as partitions
from strategies import Relay, Setup
from strategies.algorithms.requirements import momentum_of
from strategies.channel.directions import directs

if TYPE_CHECKING:
    from fedsim.settings.config import RunConfig

_NAMES = {
    "uplink": "method",
    "local_steps": "temporal",
    "masks": "momentum_masking",
    "moves": "controller",
    "exact_client_state": "memory_as",
    "simulated": "network",
    "optimizer": "task",
    "server_links": "network",
}
"""The names of settings of a ``Setup`` here, where they differ."""


def check_plan(config: "RunConfig", plan: Plan) -> None:
    """Refuses settings that do not go together, defaults filled in."""
    if config.by_client:
        _local_work(config, plan)
    if config.rounds is not None and config.iterations is not None:
        raise UsageError(
            f"--rounds is {config.rounds} and --iterations is {config.iterations}: give one of "
            f"them; a round has --temporal ({plan.temporal}) local iterations"
        )
    if plan.temporal > plan.iterations:
        raise UsageError(
            f"--temporal is {plan.temporal}: a round has at most --iterations "
            f"({plan.iterations}) local iterations"
        )
    if plan.cohort > plan.clients:
        raise UsageError(f"--cohort is {plan.cohort}: there are {plan.clients} clients")
    if not plan.cohort <= plan.ask <= plan.clients:
        raise UsageError(
            f"--ask is {plan.ask}: it lies between the cohort ({plan.cohort}) and the number of "
            f"clients ({plan.clients})"
        )
    if config.clients.catch_up and isinstance(plan.downlink, Raw):
        raise UsageError(
            "--catch-up is given and --downlink is raw: the model is then as small as one update; "
            "give a --downlink that compresses, such as 'sbc(0.05)', or relay"
        )
    # Decisions by simulated time need a clock that is the same on every machine.
    if plan.rules.by_the_clock and (plan.network is None or plan.network.depends):
        names = ("ask", "deadline", "availability")
        name, value = next((n, v) for n in names if (v := getattr(config.clients, n)))
        raise UsageError(
            f"{flag(name)} is {value}: it goes by simulated time; give --network a time per "
            "iteration, such as '4g, compute=20ms', and no coding"
        )
    if plan.network is not None and plan.network.trace is not None:
        plan.network.trace.of(plan.clients)  # raises: a client that the file lacks
    if plan.rules.availability is not None and plan.rules.availability.trace is not None:
        plan.rules.availability.trace.of(plan.clients)
    if plan.min_replies > plan.cohort:
        raise UsageError(f"--min-replies is {plan.min_replies}: a cohort has {plan.cohort} clients")
    _strategy(config, plan)
    _sampler(plan)
    _memory_as(config)
    _collective(config, plan)
    _tree(config, plan)
    _energy(config, plan)
    _overlap(plan)
    _momentum(config, plan)
    if config.controller is not None:
        _controller(config, plan)
    partitions.check_partition(plan.partition)
    if config.training.precision == "tf32" and not _on_gpu(config):
        raise UsageError(
            f"--precision is 'tf32' and --device is {config.machine.device!r}: only a GPU "
            "has TF32; give --device cuda, or --precision float32 or bfloat16"
        )


def _work_of_each(config: Settings) -> str:
    """The setting by which clients do unlike numbers of local iterations; empty: there is none."""
    if config.local_epochs is not None:
        return f"--local-epochs is {config.local_epochs}"
    if config.local_seconds is not None:
        return f"--local-seconds is {float(config.local_seconds):g}"
    return ""


def _local_work(config: Settings, plan: Plan) -> None:
    """Refuses what says otherwise how long a client trains, and seconds without a compute time."""
    start, typed = _work_of_each(config), SETTINGS["temporal"].default
    if config.local_epochs is not None and plan.local_seconds is not None:
        raise UsageError(f"{start} and --local-seconds is {plan.local_seconds:g}: give one of them")
    if plan.local_seconds is not None and (plan.network is None or not plan.network.computes):
        label = "not given" if plan.network is None else repr(plan.network.name)
        raise UsageError(
            f"{start} and --network is {label}: the local iterations of a client follow from its "
            "compute time; give --network a time above 0 or a rate, such as '4g, compute=20ms'"
        )
    if config.iterations is not None:
        raise UsageError(
            f"{start} and --iterations is {config.iterations}: clients then do unlike numbers of "
            "iterations; give --rounds in its place"
        )
    if config.rounds is None:
        raise UsageError(f"{start}: it takes --rounds, how many rounds the run has")
    if config.temporal != typed:
        raise UsageError(f"{start} and --temporal is {config.temporal}: give one of them")


def _on_gpu(config: Settings) -> bool:
    return config.machine.device.startswith("cuda")


def _strategy(config: "RunConfig", plan: Plan) -> None:
    if plan.algorithm.clock != "rounds":  # it may have a buffer that it fills
        updates, size = plan.rounds * plan.cohort, getattr(plan.algorithm, "buffer_size", None)
        if size is not None and size > updates:
            raise UsageError(
                f"--buffer-size is {size}: the run has {updates} updates, with which the model "
                "would never move"
            )
    # Methods whose messages one strategy alone reads: neither goes without the other.
    uplink, needs = plan.method.compressor, plan.algorithm.needs_method
    _requirements(config, plan)
    if (other := needs_server(uplink)) != needs:
        raise UsageError(
            f"--method is {config.method!r}: the messages of {other} are read by --strategy "
            f"{other} alone"
        )
    below = needs_server(plan.downlink)
    if below and not (directs(plan.downlink) and below == needs):
        raise UsageError(
            f"--downlink is {config.downlink!r}: the messages of {below} are read by --strategy "
            f"{below} alone; of such methods ef21(...) alone is a downlink, with --strategy ef21"
        )


def _requirements(config: "RunConfig", plan: Plan) -> None:
    """Raises ``UsageError`` for the first setting with which the algorithm does not go."""
    network = plan.network
    moves = () if config.controller is None else parse_controller(config.controller).moves
    setup = Setup(
        plan.method.compressor, plan.downlink, plan.clients, plan.cohort, plan.required,
        config.clients.late, plan.temporal, plan.masks, corrects_momentum(plan.method.compressor),
        partial(optimizer_of, config, plan), config.training.proximal,
        config.machine.memory_as == EXACT, tuple(moves),
        simulated=network is not None and not network.depends,
        server_links=network is not None and min(network.server_up, network.server_down) < math.inf,
        local_epochs=plan.local_epochs, local_seconds=plan.local_seconds,
        max_norm=config.clients.max_norm,
    )  # fmt: skip
    if (wrong := plan.algorithm.unmet(setup)) is None:
        return
    name = _NAMES.get(wrong.setting, wrong.setting)
    values = config.flat() | {
        "temporal": plan.temporal,
        "local_seconds": plan.local_seconds,
        "min_replies": plan.required,
        "momentum_masking": "on",
        "task": plan.task.name,
        "network": network and network.name,
        "momentum": momentum_of(optimizer_of(config, plan)),
    }
    value = values[name]
    shown = "not given" if value is None else repr(value) if isinstance(value, str) else value
    if name == "cohort":
        shown = f"{plan.cohort} of {plan.clients} clients"
    hint = f"; give {wrong.instead}" if wrong.instead else ""
    raise UsageError(f"{flag(name)} is {shown}: strategy {plan.strategy} {wrong.reason}{hint}")


def _memory_as(config: Settings) -> None:
    """Refuses what memory cannot be kept as; ``memorycodec.check`` knows the tensors' sizes."""
    memory_as = config.machine.memory_as
    start = f"--memory-as is {memory_as!r}"
    if memory_as in (EXACT, NEAREST):
        return
    try:
        method = compressor_of(memory_as)
    except UsageError as error:
        raise UsageError(f"--memory-as: {error}; give {EXACT}, {NEAREST} or a method") from None
    if needs_server(method) or method.init({"w": torch.zeros(2, 2)}):
        raise UsageError(
            f"{start}: the method has a memory or a server of its own; give one without, such as "
            "cnat"
        )
    if cause := always_grows(method, around=""):
        raise UsageError(f"{start}: {cause}")


def _collective(config: Settings, plan: Plan) -> None:
    """Refuses what relayed messages and a ring allreduce do not go with.

    With the one clients make the uplinks' mean themselves and no more, the other adds up floats.
    """
    if isinstance(plan.downlink, Relay):
        start = f"--downlink is {Relay.codec_id!r}"
        if getattr(plan.algorithm, "weighting", None) == "nova":
            raise UsageError(
                f"{start} and --weighting is 'nova': clients are not told how many local "
                "iterations the others did; give uniform or samples"
            )
        if not plan.algorithm.averages:
            raise UsageError(
                f"{start} and --strategy is {plan.strategy!r}: every client makes the model of the "
                "others' messages itself: their mean, as of dsgd"
            )
        if config.controller:
            raise UsageError(
                f"{start} and --controller is {config.controller!r}: clients are not told at which "
                "fraction the others encoded; leave one of the two out"
            )
    if plan.network is not None and plan.network.topology == "allreduce":
        start = f"--network has topology=allreduce and {{}}: {ALLREDUCE}"
        if not isinstance(plan.method.compressor, Raw):
            raise UsageError(start.format(f"--method is {config.method!r}"))
        if not isinstance(plan.downlink, Raw):
            raise UsageError(start.format(f"--downlink is {config.downlink!r}"))
        if not plan.algorithm.averages:
            raise UsageError(start.format(f"--strategy is {plan.strategy!r}"))
        if config.controller is not None:
            raise UsageError(start.format(f"--controller is {config.controller!r}"))
        if not plan.clients == plan.cohort == plan.required or not plan.rules.plain:
            names = ("cohort", "min_replies", "ask", "deadline", "dropout", "availability")
            values = ((n, getattr(config.clients, n)) for n in names)
            name, value = next((n, v) for n, v in values if v is not None)
            raise UsageError(start.format(f"{flag(name)} is {value}"))


def _overlap(plan: Plan) -> None:
    """Refuses messages that travel during local steps where these steps need the messages."""
    network = plan.network
    if network is not None and network.overlap and plan.algorithm.steps_ahead == 0:
        raise UsageError(
            f"--network is {network.name!r}, which has overlap=on, and --strategy is "
            f"{plan.strategy!r}: its clients need the server's model before they train; give a "
            "strategy with a delay, such as diloco(tau=1)"
        )


def _energy(config: Settings, plan: Plan) -> None:
    """Refuses a limit without energy, and energy with what has none yet."""
    network = plan.network
    if config.stop_at_joules is not None and (network is None or not network.spends):
        label = "not given" if network is None else repr(network.name)
        raise UsageError(
            f"--stop-at-joules is {float(config.stop_at_joules):g} and --network is {label}: "
            "nothing takes energy; give the network energy_up, energy_down or energy_compute, such "
            "as '4g, energy_up=1uJ/bit'"
        )
    if network is None or not network.spends:
        return
    start = f"--network is {network.name!r}, which has energy, and"
    if plan.algorithm.clock == "shards":
        raise UsageError(
            f"{start} --strategy is {plan.strategy!r}: what workers send each other has no energy; "
            "give another strategy"
        )


def _sampler(plan: Plan) -> None:
    """Refuses a sampler that needs what the run does not have."""
    sampler, start = plan.draws, f"--sampler is {plan.sampler!r}"
    timed = plan.network is not None and not plan.network.depends
    if {LINKS, SECONDS} & {*sampler.needs} and not timed:
        label = "not given" if plan.network is None else repr(plan.network.name)
        raise UsageError(
            f"{start} and --network is {label}: it goes by links or simulated time; give --network "
            "a time per iteration, such as '4g, compute=20ms', and no coding"
        )
    if {TRAIN_LOSS, LOCAL_LOSS} & {*sampler.needs} and plan.algorithm.clock == "shards":
        raise UsageError(
            f"{start} and --strategy is {plan.strategy!r}, whose workers are the servers: nobody "
            "reports a loss; give uniform, weighted(samples) or link(fastest)"
        )
    of_data = {SAMPLES, TRAIN_LOSS, LOCAL_LOSS} & {*sampler.needs}
    if of_data and plan.algorithm.epsilon(1) is not None:
        raise UsageError(
            f"{start} and --strategy is {plan.strategy!r}: whom the sampler draws tells of the "
            "clients' data, and has no noise; give uniform or link(fastest)"
        )
    waits = plan.algorithm.clock == "rounds"
    if cause := sampler.refusal(plan.ask, plan.clients, waits):
        raise UsageError(f"{start}: it {cause}")
    if LOCAL_LOSS in sampler.needs and not waits:
        raise UsageError(
            f"{start} and --strategy is {plan.strategy!r}, which does not wait: the sampler asks "
            "clients for their losses before a round"
        )


def _controller(config: Settings, plan: Plan) -> None:
    assert config.controller is not None
    controller = parse_controller(config.controller)
    start = f"--controller is {config.controller!r}"
    strategy = f"{start} and --strategy is {plan.strategy!r}"
    moves_p, moves_n = (f"{start}, which moves {x}, and" for x in "pn")
    if plan.algorithm.clock == "shards":
        raise UsageError(f"{strategy}, whose workers are the servers: nobody orders what they do")
    if "p" in controller.moves and not takes_fraction(config.method):
        raise UsageError(
            f"{moves_p} --method is {config.method!r}: it has no place for a fraction; write {{p}} "
            "where it belongs, such as 'topk({p}) | float32 | golomb'"
        )
    if "n" in controller.moves and config.by_client:
        raise UsageError(
            f"{moves_n} {_work_of_each(config)}: both say how long clients train; leave one of the "
            "two out"
        )
    if "n" in controller.moves and config.rounds is not None:
        raise UsageError(f"{moves_n} --rounds is {config.rounds}: give --iterations")
    if "n" in controller.moves and corrects_momentum(plan.method.compressor):
        raise UsageError(f"{moves_n} --method is {plan.method.text}, which has n = 1")
    if config.clients.late == "count" and plan.algorithm.clock == "rounds":
        raise UsageError(
            f"{start} and --late is 'count': an update of an earlier round would be read with "
            "another n and p; give --late hold or drop"
        )
    if plan.network is None and "network" in controller.needs:
        raise UsageError(f"{start}, which needs the clients' links: give --network")
    if plan.network is not None and plan.network.depends:
        raise UsageError(
            f"{start} and --network is {str(config.network)!r}: a controller needs times that "
            "are the same in every run; give the network a compute time, such as compute=20ms"
        )


def _momentum(config: Settings, plan: Plan) -> None:
    """The clients' momentum is kept by their optimizer or by the method, never by both."""
    if corrects_momentum(plan.downlink):
        raise UsageError(
            f"--downlink is {config.downlink!r}, which keeps a client's momentum: give it as "
            "--method"
        )
    name, momentum = plan.method.text, config.training.momentum
    corrected = corrects_momentum(plan.method.compressor)
    if momentum is None and not corrected:
        return
    optimizer = optimizer_of(config, plan)
    if not isinstance(optimizer, SGD):
        cause = (
            f"--method is {name}, which keeps the momentum of the clients' SGD"
            if momentum is None
            else f"--momentum is {momentum:g}: it is a setting of SGD"
        )
        kind = type(optimizer).__name__
        raise UsageError(f"{cause}, and task {plan.task.name} trains with {kind}")
    if corrected and (used := momentum_of(optimizer)):
        raise UsageError(
            f"--method is {name}, which keeps the clients' momentum, and their SGD has momentum "
            f"{used:g} of its own: give --momentum 0"
        )
    if corrected and config.by_client:
        raise UsageError(
            f"--method is {name}, which corrects momentum step by step, and "
            f"{_work_of_each(config)}: give --temporal 1"
        )
    if corrected and plan.temporal != 1:
        raise UsageError(
            f"--method is {name}, which corrects momentum step by step: give --temporal 1, "
            f"not {plan.temporal}"
        )


def _tree(config: Settings, plan: Plan) -> None:
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
    _edge_method(tree.method, start, plan.method.compressor)


def _edge_method(text: str, start: str, uplink: Compressor) -> None:
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

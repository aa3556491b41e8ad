"""Which settings of a run go together; ``groups`` and ``config`` say what each takes by itself.

A message names the setting, its value and what is allowed; all raise ``UsageError``.
"""

from functools import partial

import torch
from torch.optim import SGD

from compressors import Raw
from compressors.whole.growth import always_grows
from compressors.whole.keepers import needs_server
from fedsim.ground.errors import UsageError
from fedsim.network.spec import ALLREDUCE
from fedsim.settings.controllers import parse
from fedsim.settings.declared import flag
from fedsim.settings.fields import EXACT, NEAREST, SETTINGS, Settings
from fedsim.settings.methods import compressor_of, corrects_momentum, takes_fraction
from fedsim.settings.resolved import Plan, optimizer_of
from fedsim.tasks.data import partition as partitions
from strategies import Asked, Refused, Relay
from strategies.algorithms.base import momentum_of
from strategies.channel.directions import directs

_ADDED = {"ef21": "ef21(topk(0.01) | float32)", "diana": "diana(qsgd(7))",
          "marina": "marina(randk(0.1) | float32, 0.1)", "permk": "permk(4)"}  # fmt: skip
"""A method of each strategy whose messages no other one can use; both have one name."""

_OF_WHOLE = ("availability", "dropout", "ask", "deadline", "late")
"""Settings about clients that are not there, or answer late: none that hold a part of the model."""


def check(config: Settings, plan: Plan) -> None:
    """Refuses settings that do not go together, defaults filled in."""
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
    # What simulated time decides needs a clock that is the same on every machine.
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
    _memory_as(config, plan)
    _collective(config, plan)
    if config.training.proximal is not None and plan.algorithm.gradients:
        raise UsageError(
            f"--proximal is {config.training.proximal:g}: strategy {plan.strategy} sends the "
            "gradient at the received model, where FedProx's pull is zero"
        )
    _momentum(config, plan)
    if config.controller is not None:
        _controller(config, plan)
    partitions.check(plan.partition)
    if config.training.precision == "tf32" and not _on_gpu(config):
        raise UsageError(
            f"--precision is 'tf32' and --device is {config.machine.device!r}: only a GPU "
            "has TF32; give --device cuda, or --precision float32 or bfloat16"
        )


def _on_gpu(config: Settings) -> bool:
    return config.machine.device.startswith("cuda")


def _strategy(config: Settings, plan: Plan) -> None:
    """What the strategy takes, and what it goes with."""
    if plan.algorithm.clock == "shards":
        for name in _OF_WHOLE:
            value = getattr(config.clients, name)
            if value != SETTINGS[name].default:
                raise UsageError(
                    f"{flag(name)} is {value}: with strategy {plan.strategy} every worker holds a "
                    "part of the model, so that all stay, and nobody waits for one that is late"
                )
    if plan.algorithm.clock != "rounds":  # it may have a buffer that it fills
        updates, size = plan.rounds * plan.cohort, getattr(plan.algorithm, "buffer_size", None)
        if size is not None and size > updates:
            raise UsageError(
                f"--buffer-size is {size}: the run has {updates} updates, with which the model "
                "would never move"
            )
    # Methods whose messages one strategy alone reads: neither goes without the other.
    uplink, needs = plan.method.compressor, plan.algorithm.needs_method
    if needs and getattr(uplink, "server", "") != needs:  # of the whole, not of a part
        raise UsageError(
            f"--method is {config.method!r}: strategy {needs} takes the method of its own "
            f"name alone, such as {_ADDED[needs]!r}"
        )
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
    asked = Asked(
        name=plan.strategy, method=config.method, uplink=plan.method.compressor,
        downlink=plan.downlink, temporal=plan.temporal, cohort=plan.cohort,
        required=plan.required, masks=plan.masks, clients=plan.clients, late=config.clients.late,
        network=plan.network, task=plan.task.name, optimizer=partial(optimizer_of, config, plan),
        corrects=corrects_momentum(plan.method.compressor),
    )  # fmt: skip
    try:
        plan.algorithm.refuse(asked)
    except Refused as error:
        raise UsageError(str(error)) from error


def _memory_as(config: Settings, plan: Plan) -> None:
    """Refuses what memory cannot be kept as; ``kept_as.check`` knows the tensors' sizes."""
    kept = config.machine.memory_as
    said = f"--memory-as is {kept!r}"
    if kept != EXACT and plan.algorithm.exact_client_state:
        raise UsageError(
            f"{said} and --strategy is {plan.strategy!r}: the server's state follows from what its "
            f"clients keep, to the last bit; give {EXACT}"
        )
    if kept in (EXACT, NEAREST):
        return
    try:
        method = compressor_of(kept)
    except UsageError as error:
        raise UsageError(f"--memory-as: {error}; give {EXACT}, {NEAREST} or a method") from None
    if needs_server(method) or method.init({"w": torch.zeros(2, 2)}):
        raise UsageError(
            f"{said}: the method has a memory or a server of its own; give one without, such as "
            "cnat"
        )
    if why := always_grows(method, around=""):
        raise UsageError(f"{said}: {why}")


def _collective(config: Settings, plan: Plan) -> None:
    """Refuses what relayed messages and a ring allreduce do not go with.

    With the one clients make the uplinks' mean themselves and no more, the other adds up floats.
    """
    if isinstance(plan.downlink, Relay):
        given = f"--downlink is {Relay.codec_id!r}"
        if getattr(plan.algorithm, "weighting", None) == "nova":
            raise UsageError(
                f"{given} and --weighting is 'nova': clients are not told how many local "
                "iterations the others did; give uniform or samples"
            )
        if not plan.algorithm.averages:
            raise UsageError(
                f"{given} and --strategy is {plan.strategy!r}: every client makes the model of the "
                "others' messages itself: their mean, as of dsgd"
            )
        if config.controller:
            raise UsageError(
                f"{given} and --controller is {config.controller!r}: clients are not told at which "
                "fraction the others encoded; leave one of the two out"
            )
    if plan.network is not None and plan.network.topology == "allreduce":
        given = f"--network has topology=allreduce and {{}}: {ALLREDUCE}"
        if not isinstance(plan.method.compressor, Raw):
            raise UsageError(given.format(f"--method is {config.method!r}"))
        if not isinstance(plan.downlink, Raw):
            raise UsageError(given.format(f"--downlink is {config.downlink!r}"))
        if not plan.algorithm.averages:
            raise UsageError(given.format(f"--strategy is {plan.strategy!r}"))
        if config.controller is not None:
            raise UsageError(given.format(f"--controller is {config.controller!r}"))
        if not plan.clients == plan.cohort == plan.required or not plan.rules.plain:
            names = ("cohort", "min_replies", "ask", "deadline", "dropout", "availability")
            values = ((n, getattr(config.clients, n)) for n in names)
            name, value = next((n, v) for n, v in values if v is not None)
            raise UsageError(given.format(f"{flag(name)} is {value}"))


def _controller(config: Settings, plan: Plan) -> None:
    """Refuses an unknown controller, and one that moves or needs what the run does not have."""
    assert config.controller is not None
    controller, said = parse(config.controller), f"--controller is {config.controller!r}"
    strategy = f"{said} and --strategy is {plan.strategy!r}"
    moves_p, moves_n = (f"{said}, which moves {x}, and" for x in "pn")
    if plan.algorithm.clock == "shards":
        raise UsageError(f"{strategy}, whose workers are the servers: nobody orders what they do")
    if plan.algorithm.needs_method and "p" in controller.moves:
        raise UsageError(f"{strategy}, whose sums are of one method: give a controller of n alone")
    if "p" in controller.moves and not takes_fraction(config.method):
        raise UsageError(
            f"{moves_p} --method is {config.method!r}: it has no place for a fraction; write {{p}} "
            "where it belongs, such as 'topk({p}) | float32 | golomb'"
        )
    if "p" in controller.moves and plan.algorithm.adds_codes:
        raise UsageError(f"{moves_p} --strategy is {plan.strategy!r}, whose codes do not change")
    if "n" in controller.moves and plan.algorithm.gradients:
        raise UsageError(f"{moves_n} --strategy is {plan.strategy!r}, which has n = 1")
    if "n" in controller.moves and config.rounds is not None:
        raise UsageError(f"{moves_n} --rounds is {config.rounds}: give --iterations")
    if "n" in controller.moves and corrects_momentum(plan.method.compressor):
        raise UsageError(f"{moves_n} --method is {plan.method.text}, which has n = 1")
    if config.clients.late == "count" and plan.algorithm.clock == "rounds":
        raise UsageError(
            f"{said} and --late is 'count': an update of an earlier round would be read with "
            "another n and p; give --late hold or drop"
        )
    if plan.network is None and "network" in controller.needs:
        raise UsageError(f"{said}, which needs the clients' links: give --network")
    if plan.network is not None and plan.network.depends:
        raise UsageError(
            f"{said} and --network is {str(config.network)!r}: a controller needs times that "
            "are the same in every run; give the network a compute time, such as compute=20ms"
        )


def _momentum(config: Settings, plan: Plan) -> None:
    """The clients' momentum is kept by their optimizer or by the method, never by both."""
    if corrects_momentum(plan.downlink):
        raise UsageError(
            f"--downlink is {config.downlink!r}, which keeps a client's momentum: give it as "
            "--method"
        )
    name, given = plan.method.text, config.training.momentum
    corrected = corrects_momentum(plan.method.compressor)
    if given is None and not corrected:
        return
    optimizer = optimizer_of(config, plan)
    if not isinstance(optimizer, SGD):
        cause = (
            f"--method is {name}, which keeps the momentum of the clients' SGD" if given is None
            else f"--momentum is {given:g}: it is a setting of SGD"
        )  # fmt: skip
        kind = type(optimizer).__name__
        raise UsageError(f"{cause}, and task {plan.task.name} trains with {kind}")
    if corrected and (used := momentum_of(optimizer)):
        raise UsageError(
            f"--method is {name}, which keeps the clients' momentum, and their SGD has momentum "
            f"{used:g} of its own: give --momentum 0"
        )
    if corrected and plan.temporal != 1:
        raise UsageError(
            f"--method is {name}, which corrects momentum step by step: give --temporal 1, "
            f"not {plan.temporal}"
        )

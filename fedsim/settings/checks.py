"""Which settings of a run go together; ``groups`` and ``config`` check each by itself.

A message names the setting, its value and what is allowed; all raise ``UsageError``.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch.optim import SGD

from compressors import Compressor, Raw
from compressors.whole.growth import always_grows
from compressors.whole.keepers import needs_server
from fedsim.ground.errors import UsageError
from fedsim.network.edges import EdgeTree
from fedsim.network.spec import ALLREDUCE, NetworkSpec
from fedsim.settings.controllers import parse_controller
from fedsim.settings.declarations import flag
from fedsim.settings.fields import SETTINGS, Settings
from fedsim.settings.groups import EXACT, NEAREST, Machine
from fedsim.settings.methods import compressor_of, corrects_momentum, takes_fraction
from fedsim.settings.plans import Plan, optimizer_of
from fedsim.settings.samplers.base import LINKS, LOCAL_LOSS, SAMPLES, SECONDS, TRAIN_LOSS
from fedsim.tasks.data import partition as partitions
from strategies import FedBuff, Relay, Setup
from strategies.algorithms.requirements import momentum_of
from strategies.channel.directions import directs

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


@dataclass(frozen=True)
class _Run:
    """A run whose settings are checked, defaults filled in."""

    config: Settings
    plan: Plan

    @property
    def network(self) -> NetworkSpec | None:
        return self.plan.network

    @property
    def timed(self) -> bool:
        """Whether there is a clock that is the same on every machine."""
        return self.network is not None and not self.network.depends

    @property
    def tree(self) -> EdgeTree | None:
        return None if self.network is None else self.network.tree

    @property
    def relays(self) -> bool:
        return isinstance(self.plan.downlink, Relay)

    @property
    def allreduce(self) -> bool:
        return self.network is not None and self.network.topology == "allreduce"

    @property
    def corrects(self) -> bool:
        return corrects_momentum(self.plan.method.compressor)

    @property
    def machine(self) -> Machine:
        return self.config.machine

    @property
    def stacks(self) -> bool:
        """Whether several clients are to be trained together."""
        return str(self.machine.stack).isdecimal() and self.machine.stack != "1"

    @property
    def clock(self) -> str:
        return self.plan.algorithm.clock

    @cached_property
    def moves(self) -> Collection[str]:
        """Which of n and p a controller moves."""
        controller = self.config.controller
        return () if controller is None else parse_controller(controller).moves

    def asks(self, *needs: str) -> bool:
        """Whether the sampler needs one of these."""
        return bool({*needs} & {*self.plan.draws.needs})

    def shown(self, name: str) -> str:
        """A setting with its value, as a message has it: ``--late is 'count'``."""
        config, plan = self.config, self.plan
        if name == "tree" and self.tree is not None:
            return f"--network has {self.tree.groups} edge servers (topology=tree)"
        if name == "allreduce":
            return "--network has topology=allreduce"
        if name in ("moves n", "moves p"):
            return f"{self.shown('controller')}, which {name},"
        if name == "work":
            name = "local_seconds" if config.local_epochs is None else "local_epochs"
        if name in _FIRST_OF:
            name = next(n for n in _FIRST_OF[name] if getattr(config.clients, n) is not None)
        values = config.flat() | {
            "local_seconds": plan.local_seconds,
            "iterations": config.iterations or plan.iterations,
            "downlink": "raw" if isinstance(plan.downlink, Raw) else config.downlink,
            "clients": plan.clients,
            "ask": plan.ask,
            "min_replies": plan.required,
            "momentum_masking": "on",
            "task": plan.task.name,
            "strategy": plan.strategy,
            "sampler": plan.sampler,
            "network": self.network and self.network.name,
            "momentum": momentum_of(optimizer_of(config, plan)),
            "weighting": getattr(plan.algorithm, "weighting", None),
        }
        value = values[name]
        if name == "cohort":
            return f"--cohort is {plan.cohort} of {plan.clients} clients"
        text = f"{value:g}" if isinstance(value, float) else repr(value)
        return f"{flag(name)} is {'not given' if value is None else text}"


_FIRST_OF = {
    "by time": ("ask", "deadline", "availability"),
    "waits": ("deadline", "ask"),
    "a part": ("cohort", "min_replies", "ask", "deadline", "dropout", "availability"),
}
"""Settings of clients of which a message names the first that is given."""

_AT_NODES = "it goes with --engine local or ray: with flower what clients keep lies at their nodes"
_ALONE = "clients train together with --engine local and --workers 1; others get single messages"

_Refusal = tuple[Callable[[_Run], object], str, str, str]

_COUNTS: tuple[_Refusal, ...] = (
    (lambda r: r.config.local_epochs is not None and r.plan.local_seconds is not None,
     "local_epochs", "local_seconds", "give one of them"),
    (lambda r: r.plan.local_seconds is not None and not (r.network and r.network.computes),
     "local_seconds", "network", "the local iterations of a client follow from its compute time; "
     "give --network a time above 0 or a rate, such as '4g, compute=20ms'"),
    (lambda r: r.config.by_client and r.config.iterations is not None,
     "work", "iterations", "clients then do unlike numbers of iterations; give --rounds"),
    (lambda r: r.config.by_client and r.config.rounds is None,
     "work", "rounds", "give how many rounds the run has"),
    (lambda r: r.config.by_client and r.config.temporal != SETTINGS["temporal"].default,
     "work", "temporal", "give one of them"),
    (lambda r: r.config.rounds is not None and r.config.iterations is not None,
     "rounds", "iterations", "give one of them; a round has --temporal local iterations"),
    (lambda r: r.plan.temporal > r.plan.iterations,
     "temporal", "iterations", "a round has at most the local iterations of the run"),
    (lambda r: r.plan.ask < r.plan.cohort, "ask", "cohort", "at least the cohort is asked"),
    (lambda r: r.plan.ask > r.plan.clients, "ask", "clients", "at most all clients are asked"),
    (lambda r: r.config.clients.catch_up and isinstance(r.plan.downlink, Raw),
     "catch_up", "downlink", "the model is then as small as one update; give a --downlink that "
     "compresses, such as 'sbc(0.05)', or relay"),
    (lambda r: r.plan.rules.by_the_clock and not r.timed,
     "by time", "network", "it goes by simulated time; give --network a time per iteration, such "
     "as '4g, compute=20ms', and no coding"),
    (lambda r: r.plan.min_replies > r.plan.cohort,
     "min_replies", "cohort", "a round has no more replies than that"),
)  # fmt: skip
"""When two settings do not go together, which they are (``_Run.shown``), and why."""

_PAIRS: tuple[_Refusal, ...] = (
    (lambda r: r.asks(LINKS, SECONDS) and not r.timed,
     "sampler", "network", "it goes by links or simulated time; give --network a time per "
     "iteration, such as '4g, compute=20ms', and no coding"),
    (lambda r: r.asks(TRAIN_LOSS, LOCAL_LOSS) and r.clock == "shards",
     "sampler", "strategy", "its workers are the servers, and nobody reports a loss; give "
     "uniform, weighted(samples) or link(fastest)"),
    (lambda r: r.asks(SAMPLES, TRAIN_LOSS, LOCAL_LOSS) and r.plan.algorithm.epsilon(1) is not None,
     "sampler", "strategy", "whom the sampler draws tells of the clients' data, and has no noise; "
     "give uniform or link(fastest)"),
    (lambda r: r.relays and getattr(r.plan.algorithm, "weighting", None) == "nova",
     "downlink", "weighting", "clients are not told how many local iterations the others did; "
     "give uniform or samples"),
    (lambda r: r.relays and not r.plan.algorithm.averages,
     "downlink", "strategy", "every client makes the model of the others' messages itself: their "
     "mean, as of dsgd"),
    (lambda r: r.relays and r.config.controller,
     "downlink", "controller", "clients are not told at which fraction the others encoded; leave "
     "one of the two out"),
    (lambda r: r.allreduce and not isinstance(r.plan.method.compressor, Raw),
     "allreduce", "method", ALLREDUCE),
    (lambda r: r.allreduce and not isinstance(r.plan.downlink, Raw),
     "allreduce", "downlink", ALLREDUCE),
    (lambda r: r.allreduce and not r.plan.algorithm.averages, "allreduce", "strategy", ALLREDUCE),
    (lambda r: r.allreduce and r.config.controller, "allreduce", "controller", ALLREDUCE),
    (lambda r: r.allreduce and not (r.plan.clients == r.plan.cohort == r.plan.required
                                    and r.plan.rules.plain),
     "allreduce", "a part", ALLREDUCE),
    (lambda r: r.tree and r.tree.groups > r.plan.clients,
     "tree", "clients", "groups is at most the number of clients"),
    (lambda r: r.tree and not r.plan.algorithm.averages,
     "tree", "strategy", "edge servers send the mean of their clients' updates; give --strategy "
     "dsgd, with --weighting uniform or samples"),
    (lambda r: r.tree and r.relays,
     "tree", "downlink", "clients would need each other's messages; give raw or a method"),
    (lambda r: r.tree and r.config.controller,
     "tree", "controller", "what it orders and reads is not counted on the way to edge servers; "
     "leave one of the two out"),
    (lambda r: r.tree and r.plan.rules.late,
     "tree", "waits", "an edge server waits for all of its clients; leave one of the two out"),
    (lambda r: r.tree and r.asks(SAMPLES, LOCAL_LOSS),
     "tree", "sampler", "what it asks clients for is not counted on the way to edge servers; give "
     "a sampler such as uniform or link(fastest)"),
    (lambda r: r.config.stop_at_joules is not None and not (r.network and r.network.spends),
     "stop_at_joules", "network", "nothing takes energy; give the network energy_up, energy_down "
     "or energy_compute, such as '4g, energy_up=1uJ/bit'"),
    (lambda r: r.network and r.network.spends and r.clock == "shards",
     "network", "strategy", "what workers send each other has no energy; give another strategy"),
    (lambda r: r.network and r.network.overlap and not r.plan.algorithm.steps_ahead,
     "network", "strategy", "with overlap=on its clients would need the server's model before "
     "they train; give a strategy with a delay, such as diloco(tau=1)"),
    (lambda r: r.corrects and r.config.by_client,
     "method", "work", "it corrects momentum step by step; give --temporal 1"),
    (lambda r: r.corrects and r.plan.temporal != 1,
     "method", "temporal", "it corrects momentum step by step; give --temporal 1"),
    (lambda r: r.config.controller and r.clock == "shards",
     "controller", "strategy", "its workers are the servers: nobody orders what they do"),
    (lambda r: "p" in r.moves and not takes_fraction(r.config.method),
     "moves p", "method", "it has no place for a fraction; write {p} where it belongs, such as "
     "'topk({p}) | float32 | golomb'"),
    (lambda r: "n" in r.moves and r.config.by_client,
     "moves n", "work", "both say how long clients train; leave one of the two out"),
    (lambda r: "n" in r.moves and r.config.rounds is not None,
     "moves n", "rounds", "give --iterations"),
    (lambda r: "n" in r.moves and r.corrects, "moves n", "method", "the method has n = 1"),
    (lambda r: r.config.controller and r.config.clients.late == "count" and r.clock == "rounds",
     "controller", "late", "an update of an earlier round would be read with another n and p; "
     "give --late hold or drop"),
    (lambda r: r.network is None and r.config.controller
     and "network" in parse_controller(r.config.controller).needs,
     "controller", "network", "it needs the clients' links: give --network"),
    (lambda r: r.config.controller and r.network and r.network.depends,
     "controller", "network", "a controller needs times that are the same in every run; give the "
     "network a compute time, such as compute=20ms"),
    (lambda r: r.config.training.precision == "tf32" and not _on_gpu(r.config),
     "precision", "device", "only a GPU has TF32; give --device cuda, or --precision float32 or "
     "bfloat16"),
    (lambda r: r.machine.gpus_per_client is not None and r.machine.device != "cuda",
     "gpus_per_client", "device", "it goes with cuda, because Ray assigns the GPU"),
    (lambda r: r.machine.gpus_per_run is not None and r.machine.device != "cuda",
     "gpus_per_run", "device", "it goes with cuda, because Ray assigns the GPU"),
    (lambda r: r.machine.gpus_per_client is not None and r.machine.engine == "local",
     "gpus_per_client", "engine", "it goes with --engine ray or flower"),
    (lambda r: r.machine.memory is not None and r.machine.engine == "flower",
     "memory", "engine", _AT_NODES),
    (lambda r: r.machine.memory_as != EXACT and r.machine.engine == "flower",
     "memory_as", "engine", _AT_NODES),
    (lambda r: r.stacks and r.machine.engine != "local", "stack", "engine", _ALONE),
    (lambda r: r.stacks and r.machine.workers > 1, "stack", "workers", _ALONE),
)  # fmt: skip
"""The same, after what methods and strategies ask of each other."""


def check_plan(config: Settings, plan: Plan) -> None:
    """Refuses settings that do not go together, defaults filled in."""
    run = _Run(config, plan)
    if plan.cohort > plan.clients:
        raise UsageError(f"--cohort is {plan.cohort}: there are {plan.clients} clients")
    _refuse(run, _COUNTS)
    if plan.network is not None and plan.network.trace is not None:
        plan.network.trace.of(plan.clients)  # raises: a client that the file lacks
    if plan.rules.availability is not None and plan.rules.availability.trace is not None:
        plan.rules.availability.trace.of(plan.clients)
    _strategy(run)
    _memory_as(config)
    _refuse(run, _PAIRS)
    waits = run.clock == "rounds"
    if cause := plan.draws.refusal(plan.ask, plan.clients, waits):
        raise UsageError(f"{run.shown('sampler')}: it {cause}")
    if run.asks(LOCAL_LOSS) and not waits:
        raise UsageError(f"{run.shown('sampler')}: it asks for losses before a round; give uniform")
    if run.tree is not None:
        _edge_method(run.tree.method, run.shown("tree"), plan.method.compressor)
    _momentum(config, plan)
    partitions.check_partition(plan.partition)


def _refuse(run: _Run, refusals: tuple[_Refusal, ...]) -> None:
    for is_wrong, one, other, reason in refusals:
        if is_wrong(run):
            raise UsageError(f"{run.shown(one)} and {run.shown(other)}: {reason}")


def _on_gpu(config: Settings) -> bool:
    return config.machine.device.startswith("cuda")


def _strategy(run: _Run) -> None:
    """Refuses a method, a downlink or a buffer that the strategy does not go with."""
    config, plan = run.config, run.plan
    size, updates = getattr(plan.algorithm, "buffer_size", None), plan.rounds * plan.cohort
    if isinstance(plan.algorithm, FedBuff):
        size = plan.algorithm.buffer_of(plan.ask)
    if run.clock != "rounds" and size is not None and size > updates:
        raise UsageError(
            f"--buffer-size is {size}: the run has {updates} updates, with which the model would "
            "never move"
        )
    _requirements(run)
    # Methods whose messages one strategy alone reads: neither goes without the other.
    needs = plan.algorithm.needs_method
    if (other := needs_server(plan.method.compressor)) != needs:
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


def _requirements(run: _Run) -> None:
    """Raises ``UsageError`` for the first setting with which the algorithm does not go."""
    config, plan, network = run.config, run.plan, run.network
    setup = Setup(
        plan.method.compressor, plan.downlink, plan.clients, plan.cohort, plan.required,
        config.clients.late, plan.temporal, plan.masks, corrects_momentum(plan.method.compressor),
        partial(optimizer_of, config, plan), config.training.proximal,
        config.machine.memory_as == EXACT, tuple(run.moves),
        simulated=network is not None and not network.depends,
        server_links=network is not None and min(network.server_up, network.server_down) < math.inf,
        local_epochs=plan.local_epochs, local_seconds=plan.local_seconds,
        max_norm=config.clients.max_norm,
    )  # fmt: skip
    if (wrong := plan.algorithm.unmet(setup)) is None:
        return
    name = _NAMES.get(wrong.setting, wrong.setting)
    hint = f"; give {wrong.instead}" if wrong.instead else ""
    raise UsageError(f"{run.shown(name)}: strategy {plan.strategy} {wrong.reason}{hint}")


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

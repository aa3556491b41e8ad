"""A run's settings with every default filled in: what the rest of fedsim works from."""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch.nn import Parameter
from torch.optim import Optimizer

from compressors import Compressor, parse
from fedsim.ground.errors import UsageError, comma
from fedsim.network import spec
from fedsim.network.availability import parse_availability
from fedsim.network.cohorts import ClientDropout, Rules, parse_dropout
from fedsim.network.quantities import quantity
from fedsim.network.rates import ROUNDED
from fedsim.settings.controllers import parse_controller
from fedsim.settings.fields import GRADIENT, Settings
from fedsim.settings.groups import UNIFORM
from fedsim.settings.methods import Method, resolve, takes_fraction
from fedsim.settings.samplers import Sampler
from fedsim.settings.samplers.parsing import sampler_of
from fedsim.settings.samplers.simple import Uniform
from fedsim.settings.strategies import algorithm_of, strategy_text
from fedsim.tasks import Task, get_task
from fedsim.tasks.data.filesplits import partition_with_digest
from strategies import DSGD, Algorithm, Client, FedProx, Relay, chain


@dataclass(frozen=True)
class Plan:
    """The task, the methods and counts, all above zero.

    ``stop_at_bits``, ``stop_at_joules`` (of all clients together) and ``network`` are None where
    they are not asked for. ``budget_of``: which
    bits ``stop_at_bits`` counts, ``up`` or ``total``. ``local_epochs``: of each client in a round;
    then ``temporal`` and ``iterations`` count epochs, because only the data tell how many
    iterations an epoch of a client has. ``local_seconds``: simulated, of each client in a round;
    then ``temporal`` is 1, and ``iterations`` counts rounds. Both None: they count local
    iterations. ``draws`` is the sampler, and ``sampler`` its text. ``masks``: whether momentum is
    masked; ``masking_method``: the method that says where, at the fractions of a controller.
    """

    task: Task
    method: Method
    downlink: Compressor
    temporal: int
    local_epochs: int | None
    clients: int
    cohort: int
    iterations: int
    batch_size: int
    partition: str
    min_replies: int
    required: int
    evaluate_every: int
    masks: bool
    masking_method: Compressor
    stop_at_bits: float | None = None
    stop_at_joules: float | None = None
    budget_of: str = "up"
    network: spec.NetworkSpec | None = None
    rules: Rules = Rules()
    ask: int = 0
    algorithm: Algorithm = field(default_factory=DSGD)
    client: Client = field(default_factory=Client)
    strategy: str = "dsgd"
    draws: Sampler = field(default_factory=Uniform)
    sampler: str = UNIFORM
    local_seconds: float | None = None

    @cached_property
    def own_half(self) -> bool:
        """Whether the algorithm, and so its clients' half, is a user's own."""
        return not type(self.algorithm).__module__.startswith("strategies.")

    @cached_property
    def by_client(self) -> bool:
        """Whether clients do unlike numbers of local iterations, as the settings say."""
        return self.local_epochs is not None or self.local_seconds is not None

    @property
    def requests(self) -> int:
        """Clients that a round asks, or on average a row of a server that does not wait."""
        return self.ask if self.algorithm.clock == "rounds" else self.cohort

    @property
    def rounds(self) -> int:
        """Communication rounds; the last may have fewer local iterations."""
        return -(-self.iterations // self.temporal)

    def reaches(self, bits: float, joules: float = 0.0) -> bool:
        """Whether bits or joules have reached their limit, ``stop_at_bits``, ``stop_at_joules``.

        ``bits`` are a client's, those of ``budget_of``; ``joules`` are of all clients together.
        Sums may lack a rounding: six times 8 / 3 bits reach 16.
        """
        limits = (bits, self.stop_at_bits), (joules, self.stop_at_joules)
        return any(limit is not None and spent * ROUNDED >= limit for spent, limit in limits)

    def exceeds(self, bits: float) -> bool:
        """Whether a client's bits, those of ``budget_of``, are more than ``stop_at_bits``."""
        return self.stop_at_bits is not None and bits > self.stop_at_bits * ROUNDED

    def ends(self, rounds: int, iteration: int, bits: float, joules: float = 0.0) -> bool:
        """Whether the run is over after so many rounds, local iterations, bits and joules.

        The bits are a client's (``reaches``), and the joules of all clients together.
        """
        done = rounds >= self.rounds if self.by_client else iteration >= self.iterations
        return done or self.reaches(bits, joules)

    def local_iterations(self, round_number: int) -> int:
        """Local iterations of one round (1, 2, ...)."""
        return min(self.temporal, self.iterations - (round_number - 1) * self.temporal)

    def iterations_after(self, round_number: int) -> int:
        """Local iterations done when that round ends."""
        return min(self.iterations, round_number * self.temporal)


def filled(config: Settings) -> Plan:
    """The plan of a run; ``checks`` refuses settings that do not go together."""
    task, clients, training = get_task(config.task), config.clients, config.training
    default = GRADIENT if takes_fraction(config.method) else None
    method = resolve(config.method, default if config.gradient is None else config.gradient)
    cohort = clients.cohort or clients.count or task.clients
    availability, out, limit = clients.availability, clients.dropout, clients.deadline
    rules = Rules(
        None if availability is None else parse_availability(str(availability)),
        ClientDropout() if out is None else parse_dropout(str(out)),
        None if limit is None else quantity(limit, "--deadline", "time"),
        None if clients.ask is None else cohort,
    )
    seconds = None if config.local_seconds is None else float(config.local_seconds)
    temporal = config.local_epochs or (1 if seconds else config.temporal)
    in_rounds = config.rounds and config.rounds * temporal
    iterations = in_rounds or config.iterations or task.iterations
    rule = algorithm_of(config.strategy)
    masking, pull = training.momentum_masking, training.proximal
    masking_method, controller = method, config.controller
    moves = () if controller is None else parse_controller(controller).moves
    if masking == "auto" and "p" in moves and method.gradient == 1 and default is not None:
        masking_method = resolve(config.method, default)  # it may be raw at p = 1 alone
    try:  # as given; else the strategy's own, which is raw for most
        downlink, downlink_text = rule.default_downlink(method.compressor), config.downlink
        if downlink_text is not None and takes_fraction(downlink_text):
            raise UsageError(
                f"--downlink is {downlink_text!r}, which takes a fraction of entries: write it, "
                "such as 'sbc(0.05)'"
            )
        if downlink_text is not None:
            downlink = Relay() if downlink_text.strip() == Relay.codec_id else parse(downlink_text)
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(f"--downlink: {error}{comma(str(downlink_text))}") from error
    network = None if config.network is None else spec.parse(str(config.network))
    needs_all = rule.every_reply or (network is not None and network.topology == "allreduce")
    least = cohort if needs_all else 1
    return Plan(
        task=task,
        method=method,
        downlink=downlink,
        temporal=temporal,
        local_epochs=config.local_epochs,
        clients=clients.count or task.clients,
        cohort=cohort,
        iterations=iterations,
        batch_size=training.batch_size or task.batch_size,
        partition=partition_with_digest(
            task.partition if clients.partition is None else clients.partition
        ),
        min_replies=clients.min_replies or (least if rules.plain else 1),
        required=clients.min_replies or (least if rules.plain else 0),
        evaluate_every=config.evaluation.every or max(1, iterations // temporal // 20),
        # Where clients send gradients, the server has their momentum.
        masks=masking == "on" or not rule.gradients and masking_method.masks(masking),
        masking_method=masking_method.compressor,
        stop_at_bits=None if config.stop_at_bits is None else float(config.stop_at_bits),
        stop_at_joules=None if config.stop_at_joules is None else float(config.stop_at_joules),
        budget_of=config.budget_of,
        network=network,
        rules=rules,
        ask=clients.ask or cohort,
        algorithm=rule,
        strategy=strategy_text(config.strategy),
        client=rule.client if pull is None else chain(FedProx(pull), rule.client),
        draws=sampler_of(clients.sampler),
        sampler=clients.sampler if isinstance(clients.sampler, str) else clients.sampler.written,
        local_seconds=seconds,
    )


def optimizer_of_task(task: Task) -> Optimizer:
    """The task's own optimizer, of a single parameter."""
    return task.optimizer([Parameter(torch.zeros(1))])


def optimizer_of(config: Settings, plan: Plan) -> Optimizer:
    """An optimizer as clients have it, of a single parameter."""
    optimizer = optimizer_of_task(plan.task)
    for group in optimizer.param_groups:
        values = {"lr": config.training.lr, "momentum": config.training.momentum}
        group |= {key: value for key, value in values.items() if value is not None and key in group}
    return optimizer

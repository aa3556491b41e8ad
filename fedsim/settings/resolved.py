"""A run's settings with every default filled in: what the rest of fedsim works from."""

from dataclasses import dataclass, field

from compressors import Compressor, parse
from fedsim.ground.errors import UsageError
from fedsim.network import spec
from fedsim.network.availability import parse_availability
from fedsim.network.cohorts import Dropout, Rules, parse_dropout
from fedsim.network.quantities import quantity
from fedsim.settings.fields import GRADIENT, Settings
from fedsim.settings.methods import Method, resolve, takes_fraction
from fedsim.settings.strategies import FLAGS, algorithm, written
from fedsim.tasks import Task, get_task
from strategies import DSGD, Algorithm, Client, FedProx, Refused, Relay


@dataclass(frozen=True)
class Plan:
    """The task, the methods and counts, all above zero.

    ``stop_at_bits`` and ``network`` are None where they are not asked for.
    """

    task: Task
    method: Method
    downlink: Compressor
    temporal: int
    clients: int
    cohort: int
    iterations: int
    batch_size: int
    partition: str
    min_replies: int
    required: int
    evaluate_every: int
    masks: bool
    stop_at_bits: float | None = None
    network: spec.Network | None = None
    rules: Rules = Rules()
    ask: int = 0
    algorithm: Algorithm = field(default_factory=DSGD)
    client: Client = field(default_factory=Client)
    strategy: str = "dsgd"

    @property
    def rounds(self) -> int:
        """Communication rounds; the last may have fewer local iterations."""
        return -(-self.iterations // self.temporal)

    def evaluates(self, round_number: int) -> bool:
        """Whether the server scores its model after that round of ``temporal`` iterations."""
        done = self.iterations_after(round_number)
        return self.evaluates_between(self.iterations_after(round_number - 1), done)

    def evaluates_between(self, before: int, after: int) -> bool:
        """Whether the server scores its model after a round between these local iterations."""
        every = self.evaluate_every * self.temporal
        return after >= self.iterations or before // every != after // every

    def reaches(self, up_bits: float) -> bool:
        """Whether a client's upstream bits have reached ``stop_at_bits``."""
        return self.stop_at_bits is not None and up_bits >= self.stop_at_bits

    def ends(self, iteration: int, up_bits: float) -> bool:
        """Whether the run is over after so many local iterations and bits that a client sent."""
        return iteration >= self.iterations or self.reaches(up_bits)

    def local_iterations(self, round_number: int) -> int:
        """Local iterations of one round (1, 2, ...)."""
        return min(self.temporal, self.iterations - (round_number - 1) * self.temporal)

    def iterations_after(self, round_number: int) -> int:
        """Local iterations done when that round ends."""
        return min(self.iterations, round_number * self.temporal)


def filled(config: Settings) -> Plan:
    """The plan of a run; ``checks`` says whether its settings go together."""
    task = get_task(config.task)
    method = resolve(config.method, _gradient(config))
    clients = config.clients or task.clients
    cohort = config.cohort or clients
    rules = _rules(config, cohort)
    iterations = config.iterations or task.iterations
    rule = algorithm(config.strategy, {name: getattr(config, name) for name in FLAGS})
    return Plan(
        task=task,
        method=method,
        downlink=_downlink(config, method, rule),
        temporal=config.temporal,
        clients=clients,
        cohort=cohort,
        iterations=iterations,
        batch_size=config.batch_size or task.batch_size,
        partition=task.partition if config.partition is None else config.partition,
        min_replies=config.min_replies or (cohort if rules.plain else 1),
        required=config.min_replies or (cohort if rules.plain else 0),
        evaluate_every=config.evaluate_every or max(1, iterations // config.temporal // 20),
        masks=_masks(config, method, rule),
        stop_at_bits=None if config.stop_at_bits is None else float(config.stop_at_bits),
        network=None if config.network is None else spec.parse(config.network),
        rules=rules,
        ask=config.ask or cohort,
        algorithm=rule,
        strategy=written(config.strategy),
        client=rule.client if config.proximal is None else FedProx(config.proximal, rule.client),
    )


def _rules(config: Settings, cohort: int) -> Rules:
    """Who is there, who stays, and when rounds end."""
    there, out, limit = config.availability, config.dropout, config.deadline
    return Rules(
        None if there is None else parse_availability(str(there)),
        Dropout() if out is None else parse_dropout(str(out)),
        None if limit is None else quantity(limit, "--deadline", "time"),
        None if config.ask is None else cohort,
    )


def _gradient(config: Settings) -> float | None:
    """As given; else the default, where the method takes a fraction."""
    if config.gradient is None and takes_fraction(config.method):
        return GRADIENT
    return config.gradient


def _masks(config: Settings, method: Method, rule: Algorithm) -> bool:
    if config.momentum_masking == "auto":  # where clients send gradients, the server has it
        return method.residuals and not rule.gradients
    return config.momentum_masking == "on"


def _downlink(config: Settings, method: Method, rule: Algorithm) -> Compressor:
    """As given; else the strategy's own, which is raw for most."""
    try:
        own = rule.downlink(config.method, method.compressor)
    except Refused as error:
        raise UsageError(str(error)) from error
    return own if config.downlink is None else _compressor(config.downlink)


def _compressor(method: str) -> Compressor:
    if method.strip() == Relay.codec_id:
        return Relay()
    if takes_fraction(method):
        raise UsageError(
            f"--downlink is {method!r}, which takes a fraction of entries: write it, such as "
            "'sbc(0.05)'"
        )
    try:
        return parse(method)
    except ValueError as error:
        raise UsageError(f"--downlink: {error}") from error

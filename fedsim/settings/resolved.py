"""A run's settings with every default filled in: what the rest of fedsim works from."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch.nn import Parameter
from torch.optim import SGD

from compressors import Compressor, Natural, Raw, Row, Switch, own_rows
from fedsim.errors import UsageError
from fedsim.settings.config import GRADIENT
from fedsim.settings.methods import Method, corrects_momentum, resolve, takes_fraction
from fedsim.tasks import Task, get_task
from strategies import natural_code, vote_code

if TYPE_CHECKING:
    from fedsim.settings.config import RunConfig

CODED = ("majority", "innetwork")
"""Strategies that aggregate codes, and take the methods that send them: never ``raw``."""

AVERAGING = ("dsgd", "gradients")
"""Strategies that take the mean of what clients send, by ``weighting``."""

WIDTH = 32
"""Bits of the accumulators of ``innetwork``: what switches have (SwitchML, Sapio et al. 2021)."""


@dataclass(frozen=True)
class Plan:
    """Numbers, not wishes: the task, the methods, and counts that are all above zero."""

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
    evaluate_every: int
    masks: bool
    stop_at_bits: float | None = None

    @property
    def rounds(self) -> int:
        """Communication rounds; the last may have fewer local iterations."""
        return -(-self.iterations // self.temporal)

    def evaluates(self, round_number: int) -> bool:
        """Whether the server scores its model after that round."""
        return round_number == self.rounds or round_number % self.evaluate_every == 0

    def reaches(self, up_bits: float) -> bool:
        """Whether so many upstream bits of a client are what the run was to stop at."""
        return self.stop_at_bits is not None and up_bits >= self.stop_at_bits

    def ends(self, round_number: int, up_bits: float) -> bool:
        """Whether the run is over after that round, when a client has sent so many bits."""
        return round_number >= self.rounds or self.reaches(up_bits)

    def local_iterations(self, round_number: int) -> int:
        """Local iterations of one round (1, 2, ...)."""
        return min(self.temporal, self.iterations - (round_number - 1) * self.temporal)

    def iterations_after(self, round_number: int) -> int:
        """Local iterations done when that round ends."""
        return min(self.iterations, round_number * self.temporal)


def plan_of(config: "RunConfig") -> Plan:
    """The plan of a run; ``UsageError`` where settings do not go together."""
    return cached_plan(config, tuple(own_rows().items()))


@lru_cache(maxsize=256)
def cached_plan(config: "RunConfig", own: tuple[tuple[str, Row], ...]) -> Plan:
    """``plan_of`` with the user's rows: a name that a notebook defines again means another."""
    task = get_task(config.task)
    method = resolve(config.method, _gradient(config))
    clients = config.clients or task.clients
    cohort = config.cohort or clients
    iterations = config.iterations or task.iterations
    plan = Plan(
        task=task,
        method=method,
        downlink=_downlink(config, method),
        temporal=config.temporal,
        clients=clients,
        cohort=cohort,
        iterations=iterations,
        batch_size=config.batch_size or task.batch_size,
        partition=task.partition if config.partition is None else config.partition,
        min_replies=config.min_replies or cohort,
        evaluate_every=config.evaluate_every or max(1, iterations // config.temporal // 20),
        masks=_masks(config, method),
        stop_at_bits=None if config.stop_at_bits is None else float(config.stop_at_bits),
    )
    _check(config, plan)
    return plan


def _gradient(config: "RunConfig") -> float | None:
    """As given; else the default, where the method takes a fraction."""
    if config.gradient is None and takes_fraction(config.method):
        return GRADIENT
    return config.gradient


def _masks(config: "RunConfig", method: Method) -> bool:
    if config.momentum_masking == "auto":
        return method.residuals and config.strategy != "gradients"
    return config.momentum_masking == "on"


def _downlink(config: "RunConfig", method: Method) -> Compressor:
    """As given; else raw, and for votes the one bit that carries them."""
    votes = vote_code(method.compressor)
    if config.strategy == "majority" and votes is None:
        raise UsageError(
            f"--method is {config.method!r}: strategy majority counts votes and takes a method "
            "whose every value is plus or minus one magnitude, such as 'sign(0.001)'"
        )
    if config.downlink is not None:
        return _compressor(config.downlink)
    return votes if config.strategy == "majority" and votes is not None else Raw()


def _compressor(text: str) -> Compressor:
    if takes_fraction(text):
        raise UsageError(
            f"--downlink is {text!r}, which takes a fraction of entries: write it, such as "
            "'sbc(0.05)'"
        )
    try:
        return resolve(text, None).compressor
    except UsageError as error:
        raise UsageError(str(error).replace("--method", "--downlink")) from error


def _check(config: "RunConfig", plan: Plan) -> None:
    if plan.temporal > plan.iterations:
        raise UsageError(
            f"--temporal is {plan.temporal}: a round has at most --iterations "
            f"({plan.iterations}) local iterations"
        )
    if plan.cohort > plan.clients:
        raise UsageError(f"--cohort is {plan.cohort}: there are {plan.clients} clients")
    if plan.min_replies > plan.cohort:
        raise UsageError(f"--min-replies is {plan.min_replies}: a cohort has {plan.cohort} clients")
    if config.server_lr is not None and config.strategy in (*AVERAGING, *CODED, "fedavg"):
        raise UsageError(f"--server-lr is {config.server_lr}: strategy {config.strategy} has none")
    if config.weighting != "uniform" and config.strategy not in AVERAGING:
        raise UsageError(
            f"--weighting is {config.weighting!r}: it belongs to {' and '.join(AVERAGING)}; a "
            "majority counts every client once, as a switch does, and Flower's strategies weight "
            "by samples"
        )
    if config.strategy == "gradients":
        _check_gradients(config, plan)
    if config.strategy == "innetwork":
        _check_switch(config, plan)
    _check_momentum(config, plan)


def _check_gradients(config: "RunConfig", plan: Plan) -> None:
    """One gradient a round, and a momentum that is the server's."""
    if plan.temporal != 1:
        raise UsageError(
            f"--temporal is {plan.temporal}: strategy gradients sends the gradient of one batch; "
            "give --temporal 1"
        )
    if plan.masks:
        raise UsageError(
            "--momentum-masking is 'on': with strategy gradients the server has the momentum, and "
            "nothing of a client's to mask"
        )


def _check_switch(config: "RunConfig", plan: Plan) -> None:
    """A cohort whose integers can never leave the accumulators, whatever its clients send."""
    natural = natural_code(plan.method.compressor)
    room = 0 if natural is None else _capacity(natural)
    if natural is not None and room >= plan.cohort:
        return
    if natural is None:
        why = "which is no such method"
    elif not room:
        why = f"whose powers, 2**{natural.lowest} to 2**{natural.highest}, they cannot hold"
    else:
        why = f"whose sums they hold for {room} at most, and the cohort has {plan.cohort}"
    raise UsageError(
        f"--method is {config.method!r}, {why}: strategy innetwork adds integers of {WIDTH} bits "
        "and takes a dense cnat(bits, top) whose sums fit them for every client of the cohort, "
        "such as 'cnat(5, 0)'"
    )


def _capacity(natural: Natural) -> int:
    """How many clients can be added up; 0 where one client's powers do not fit already."""
    try:
        return Switch.of(natural, WIDTH).capacity
    except ValueError:
        return 0


def _check_momentum(config: "RunConfig", plan: Plan) -> None:
    """Who keeps the clients' momentum: their optimizer, or the method, and never both."""
    if corrects_momentum(plan.downlink):
        raise UsageError(
            f"--downlink is {config.downlink!r}, which keeps the momentum of a client: it is "
            "a --method"
        )
    corrected = corrects_momentum(plan.method.compressor)
    if config.momentum is None and not corrected:
        return
    optimizer = plan.task.optimizer([Parameter(torch.zeros(1))])
    if not isinstance(optimizer, SGD):
        if config.momentum is None:
            cause = f"--method is {plan.method.text}, which keeps the clients' momentum, SGD's"
        else:
            cause = f"--momentum is {config.momentum:g}: it is SGD's"
        kind = type(optimizer).__name__
        raise UsageError(f"{cause}, and task {plan.task.name} trains with {kind}")
    if corrected:
        _check_corrected(config, plan, optimizer)


def _check_corrected(config: "RunConfig", plan: Plan, optimizer: SGD) -> None:
    """Momentum correction (DGC) stands for the clients' momentum, one local step at a time."""
    name = plan.method.text
    own = max(group["momentum"] for group in optimizer.param_groups)
    used = own if config.momentum is None else config.momentum
    if used:
        raise UsageError(
            f"--method is {name}, which keeps the clients' momentum, and their SGD has momentum "
            f"{used:g} of its own: give --momentum 0"
        )
    if plan.temporal != 1:
        raise UsageError(
            f"--method is {name}, which corrects momentum step by step: give --temporal 1, "
            f"not {plan.temporal}"
        )

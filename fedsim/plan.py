"""A run's settings with every default filled in: what the rest of fedsim works from."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from compressors import Compressor
from fedsim.errors import UsageError
from fedsim.methods import Method, resolve, takes_fraction
from fedsim.tasks import Task, get_task

if TYPE_CHECKING:
    from fedsim.config import RunConfig


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
    min_replies: int
    evaluate_every: int
    masks: bool

    @property
    def rounds(self) -> int:
        """Communication rounds; the last may have fewer local iterations."""
        return -(-self.iterations // self.temporal)

    def local_iterations(self, round_number: int) -> int:
        """Local iterations of one round (1, 2, ...)."""
        return min(self.temporal, self.iterations - (round_number - 1) * self.temporal)

    def iterations_after(self, round_number: int) -> int:
        """Local iterations done when that round ends."""
        return min(self.iterations, round_number * self.temporal)


@lru_cache(maxsize=256)
def plan_of(config: "RunConfig") -> Plan:
    """The plan of a run; ``UsageError`` where settings do not go together."""
    task = get_task(config.task)
    method = resolve(config.method, config.gradient)
    clients = config.clients or task.clients
    cohort = config.cohort or clients
    iterations = config.iterations or task.iterations
    masking = config.momentum_masking
    plan = Plan(
        task=task,
        method=method,
        downlink=_downlink(config.downlink),
        temporal=config.temporal,
        clients=clients,
        cohort=cohort,
        iterations=iterations,
        batch_size=config.batch_size or task.batch_size,
        min_replies=config.min_replies or cohort,
        evaluate_every=config.evaluate_every or max(1, iterations // config.temporal // 20),
        masks=method.residuals if masking == "auto" else masking == "on",
    )
    _check(config, plan)
    return plan


def _downlink(text: str) -> Compressor:
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
    if config.server_lr is not None and config.strategy in ("dsgd", "fedavg"):
        raise UsageError(f"--server-lr is {config.server_lr}: strategy {config.strategy} has none")
    if config.weighting != "uniform" and config.strategy != "dsgd":
        raise UsageError(
            f"--weighting is {config.weighting!r}: it belongs to strategy dsgd; Flower's "
            "strategies weight by samples"
        )

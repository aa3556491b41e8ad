"""SCAFFOLD's clients: their control variates, and the gradient that these correct."""

from torch import Tensor

from compressors import State, Tensors
from compressors.whole.memory import inside, nest
from fedsim.federation.trainer import Job, Trainer, lr_factor
from fedsim.settings.config import RunConfig
from fedsim.settings.strategies import STRATEGIES
from strategies.server.scaffold import CONTROL, with_controls

_OWN = "variate"
"""In a client's memory: its own control variate."""


def shared(config: RunConfig, model: Tensors) -> dict[str, Tensor]:
    """What the server shares: the model and, where the strategy has them, control variates."""
    return with_controls(model) if STRATEGIES[config.strategy].controls else dict(model)


def correction(config: RunConfig, weights: Tensors, state: State) -> State:
    """What is added to every gradient: the server's control variate less the client's own.

    Empty where the strategy has none. A client's own is zero before its first round.
    """
    if not STRATEGIES[config.strategy].controls:
        return {}
    own, server = inside(_OWN, state), inside(CONTROL, dict(weights))
    return {n: c - own[n].to(c.device) if n in own else c.clone() for n, c in server.items()}


def renewed(
    trainer: Trainer, update: Tensors, state: State, job: Job
) -> tuple[dict[str, Tensor], State]:
    """A client's update with the change of its control variate in it, and what it remembers.

    The new control variate is the old one less the server's, plus the way gone over the sum of the
    learning rates (Karimireddy et al. 2020, Algorithm 1, line 12, option II).

    Args:
        trainer: whose learning rate it was.
        update: the model after minus before, by name.
        state: the client's memory before.
        job: what the client did; in its weights are the server's control variates, or none.
    """
    server = inside(CONTROL, dict(job.weights))
    if not server:
        return dict(update), {}
    steps = range(job.start, job.start + job.iterations)
    gone = trainer.optimizer_rate * sum(lr_factor(trainer.task, i) for i in steps)
    change = {n: -c - update[n].to(c.device) / gone for n, c in server.items()}
    own = inside(_OWN, state)
    after = {n: own[n].to(x.device) + x if n in own else x for n, x in change.items()}
    return {**update, **nest(CONTROL, change)}, nest(_OWN, after)

"""MARINA's clients: a second gradient, of the same batch, at the model of the round before."""

from dataclasses import replace

from compressors import State
from compressors.whole.marina import BEFORE
from compressors.whole.memory import inside, nest
from fedsim.federation.trainer import Job, Trainer
from fedsim.settings.config import RunConfig
from fedsim.settings.strategies import STRATEGIES
from strategies.channel.client_end import Delivery
from strategies.server.marina import DENSE

_MODEL = "model-before"
"""In a client's memory: the model that it was sent in the round before."""


def with_gradient_before(
    config: RunConfig, trainer: Trainer, delivery: Delivery, job: Job, state: State
) -> Delivery:
    """What was delivered, with the gradient at the model before in the method's memory.

    As it came, where the strategy does not ask for one or the round is dense. Batch, masks and
    buffers are those of ``job``. Raises ``LookupError`` where the client has no model of the round
    before.

    Args:
        config: the run's.
        trainer: computes the gradient.
        delivery: the message of this round.
        job: what the client did in this round.
        state: the client's memory before.
    """
    if not STRATEGIES[config.strategy].twice or delivery.settings[DENSE]:
        return delivery
    model = inside(_MODEL, state)
    if not model:
        raise LookupError("the client does not hold the model of the round before")
    there = trainer.train(*job._replace(weights=model)).update
    return replace(delivery, settled=replace(delivery.settled, uplink=nest(BEFORE, there)))


def kept(config: RunConfig, delivery: Delivery) -> State:
    """What a client remembers for its next round: the model of this one, where that is wanted."""
    return nest(_MODEL, delivery.weights) if STRATEGIES[config.strategy].twice else {}

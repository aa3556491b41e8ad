"""SCAFFOLD's clients: their control variates, and the gradient that these correct."""

from typing import Any

import torch
from torch import Tensor

from compressors import Packet, State, Tensors
from compressors.whole.memory import inside, nest
from compressors.whole.returned import loses
from fedsim.federation.trainer import Job, Trainer, lr_factor
from fedsim.settings.config import RunConfig
from fedsim.settings.strategies import STRATEGIES
from strategies.channel.client_end import ClientEnd, Delivery
from strategies.channel.shards import ShardedClientEnd
from strategies.server.scaffold import CONTROL, with_controls

_OWN = "variate"
"""In a client's memory: its own control variate, zero before its first round."""

_BEFORE = "variate-before"
"""In a client's memory: that variate before its last message, as far as that may be lost."""


def shared(config: RunConfig, model: Tensors) -> dict[str, Tensor]:
    """What the server shares: the model and, where the strategy has them, control variates."""
    return with_controls(model) if STRATEGIES[config.strategy].controls else dict(model)


def correction(config: RunConfig, delivery: Delivery, state: State) -> State:
    """What is added to every gradient: the server's control variate less the client's own.

    Empty where the strategy has none.
    """
    if not STRATEGIES[config.strategy].controls:
        return {}
    own, server = _own(delivery, state), inside(CONTROL, dict(delivery.weights))
    return {n: c - own[n].to(c.device) if n in own else c.clone() for n, c in server.items()}


def with_change(trainer: Trainer, update: Tensors, job: Job) -> dict[str, Tensor]:
    """A client's update, with the change of its control variate in it where it has one.

    The new control variate is the old one less the server's, plus the way gone over the sum of the
    learning rates (Karimireddy et al. 2020, Algorithm 1, line 12, option II).

    Args:
        trainer: whose learning rate it was.
        update: the model after minus before, by name.
        job: what the client did; in its weights are the server's control variates, or none.
    """
    server = inside(CONTROL, dict(job.weights))
    if not server:
        return dict(update)
    steps = range(job.start, job.start + job.iterations)
    gone = trainer.optimizer_rate * sum(lr_factor(trainer.task, i) for i in steps)
    change = {n: -c - update[n].to(c.device) / gone for n, c in server.items()}
    return {**update, **nest(CONTROL, change)}


def moved(
    end: ClientEnd | ShardedClientEnd, delivery: Delivery, update: Tensors, packet: Packet | Any,
    state: State,
) -> State:  # fmt: skip
    """The client's control variate, moved by what the server adds to its own.

    That is what was decoded, where a message may be lost, and the client takes it back where it was
    not applied. A method with a residual sends all of the change sooner or later.

    Args:
        end: knows what a memory takes back.
        delivery: what was sent, and the fate of the message before.
        update: with the change of the control variate in it, or not.
        packet: what was made of the update.
        state: the client's memory before.
    """
    change = inside(CONTROL, dict(update))
    if not change:
        return {}
    own, gone = _own(delivery, state), loses(end.uplink, end.like)
    lost = [name for name in change if f"{CONTROL}/{name}" in gone]
    change |= {name: packet.sent[f"{CONTROL}/{name}"].decoded for name in lost}
    zero = {name: torch.zeros_like(x) for name, x in change.items()}
    before = {name: own.get(name, zero[name]).to(x.device) for name, x in change.items()}
    after = {name: before[name] + x for name, x in change.items()}
    return nest(_OWN, after) | nest(_BEFORE, {name: before[name] for name in lost})


def _own(delivery: Delivery, state: State) -> State:
    """The client's variate, now that the fate of its last message is known."""
    before = {} if delivery.settled.applied else inside(_BEFORE, state)
    return inside(_OWN, state) | before

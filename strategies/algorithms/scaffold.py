"""SCAFFOLD: control variates at server and clients, whose difference corrects each gradient.

Model and control variate are one set of tensors that travels over the channel: the control variate
of ``w`` is called ``control/w``. So it is compressed, acknowledged and charged as the model is, in
both directions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.optim import SGD

from compressors import Packet, State, Tensors, text
from compressors.whole.memory import free_prefix, nest, unnest
from compressors.whole.returned import leaves_out, loses
from strategies.algorithms.base import (
    Algorithm,
    Asked,
    Change,
    Client,
    Force,
    Job,
    Refused,
    Round,
    Runs,
    Trained,
    momentum_of,
)
from strategies.algorithms.ef21 import check_late
from strategies.channel.client_end import Delivery
from strategies.channel.traffic import Uplink, average

CONTROL = "control"
"""The prefix of the control variates' names."""

_OWN, _BEFORE = "own", "before"
"""In a client's memory: its own variate, zero before its first round; and that variate before its
last message, as far as that message may be lost or leave something out."""


_DRIFTS = (
    "what it leaves out stays in the server's control variate, which drifts away from the mean of "
    "the clients' own"
)


class Variates(Client):
    """A client's own control variate c_i, and the gradients that c - c_i corrects."""

    def shares(self, model: Tensors) -> dict[str, Tensor]:
        return {**model, **_named({n: torch.zeros_like(x) for n, x in model.items()})}

    def force(self, came: Delivery, own: State) -> Force:
        server, mine = _variates(came.weights), _own(came, own)
        apart = {n: c - mine[n].to(c.device) if n in mine else c for n, c in server.items()}

        def correct(parameters: Mapping[str, Tensor]) -> None:
            for name, p in parameters.items():
                if p.grad is not None:
                    p.grad.add_(apart[name].to(p.device))

        return correct

    def update(self, came: Delivery, own: State, job: Job, trained: Trained) -> Change:
        """With it the change of c_i: -c, less the way gone over the sum of the learning rates."""
        server, update, rate = _variates(came.weights), trained.update, trained.rate
        change = {n: -c - update[n].to(c.device) / rate for n, c in server.items()}
        return Change({**update, **_named(change)})

    def after(
        self, came: Delivery, own: State, job: Job, trained: Trained, update: Tensors,
        packet: Packet,
    ) -> State:  # fmt: skip
        """c_i, moved by what the server adds to its own.

        That is what was decoded, where the rest is not sent later or a message may be lost; the
        client takes it back where it was not applied. A method with a residual that does not decay
        sends all of the change sooner or later.
        """
        change, mine = _variates(update), _own(came, own)
        prefix = free_prefix(CONTROL, change)
        gone = {*update} if leaves_out(came.uplink) else loses(came.uplink, update)
        lost = [name for name in change if f"{prefix}/{name}" in gone]
        change |= {name: packet.sent[f"{prefix}/{name}"].decoded for name in lost}
        before = {
            name: mine[name].to(x.device) if name in mine else torch.zeros_like(x)
            for name, x in change.items()
        }
        after = {name: before[name] + x for name, x in change.items()}
        return nest(_OWN, after) | nest(_BEFORE, {name: before[name] for name in lost})


def _named(variates: State) -> State:
    """Control variates by the names under which they travel behind the model."""
    return nest(free_prefix(CONTROL, variates), variates)


def _variates(tensors: Tensors) -> State:
    """The control variates among tensors: a model, and behind it its control variates."""
    names = list(tensors)[: len(tensors) // 2]
    prefix = free_prefix(CONTROL, names)
    return {name: tensors[f"{prefix}/{name}"] for name in names}


def _own(came: Delivery, own: State) -> State:
    """The client's variate, now that the fate of its last message is known."""
    return unnest(_OWN, own) | ({} if came.settled.applied else unnest(_BEFORE, own))


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """The mean of the updates; the changes of the control variates over all clients' number.

    Source: Karimireddy et al. 2020 (SCAFFOLD), Algorithm 1: line 12 option II, lines 16 and 17,
    global step size 1.

    Example:
        >>> sorted(Scaffold().client.shares({"w": torch.ones(2)}))
        ['control/w', 'w']
    """

    exact_client_state: ClassVar[bool] = True

    @property
    def client(self) -> Client:
        return Variates()

    def refuse(self, asked: Asked) -> None:
        check_late(asked, "changes of control variates")
        optimizer = asked.optimizer()
        if not isinstance(optimizer, SGD):
            raise Refused(
                f"--strategy is {asked.name}, whose clients train with SGD, and task {asked.task} "
                f"trains with {type(optimizer).__name__}"
            )
        said = f"--strategy is {asked.name}, whose control variates are those of plain SGD"
        if used := momentum_of(optimizer):
            raise Refused(f"{said}, and the clients' momentum is {used:g}: give --momentum 0")
        if len({group["lr"] for group in optimizer.param_groups}) > 1:
            raise Refused(f"{said}, and task {asked.task} has several learning rates: give --lr")
        if leaves_out(asked.downlink):
            raise Refused(
                f"--downlink is {text(asked.downlink)!r} and --strategy {asked.name}: {_DRIFTS}; "
                "give raw, or a method with a residual such as sbc(0.1) or ef(cnat)"
            )
        if asked.corrects:
            raise Refused(f"{said}, and --method is {asked.method}, which keeps a momentum")

    def check(self, strategy: Runs) -> None:
        if leaves_out(strategy.downlink):
            raise ValueError(f"downlink is {text(strategy.downlink)}: {_DRIFTS}")

    def step(
        self, uplinks: Mapping[int, Uplink], memory: State, model: Tensors, now: Round
    ) -> tuple[Tensors | None, State]:
        share, mean = len(uplinks) / now.clients, average(uplinks, "uniform")
        return mean | {n: x * share for n, x in _named(_variates(mean)).items()}, memory

"""SCAFFOLD: control variates at server and clients, whose difference corrects each gradient.

Model and control variate are one set of tensors that travels over the channel: the control variate
of ``w`` is called ``control/w``. So it is compressed, acknowledged and charged as the model is, in
both directions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from compressors import Packet, State, Tensors
from compressors.whole.feedback import leaves_out, loses
from compressors.whole.memory import free_prefix, nest, unnest
from strategies.algorithms.base import (
    Algorithm,
    Client,
    ClientUpdate,
    GradientHook,
    RoundInfo,
    Step,
    TensorHook,
    TrainJob,
    TrainResult,
    Uplinks,
)
from strategies.algorithms.requirements import (
    exact_client_state,
    lossless_downlink,
    no_lost_updates,
    plain_sgd,
)
from strategies.channel.client_end import Delivery
from strategies.channel.traffic import average

CONTROL = "control"  # the prefix of the control variates' names

_OWN, _BEFORE = "own", "before"
"""In a client's memory: its own variate, zero before its first round; and that variate before its
last message, as far as that message may be lost or leave something out."""


@dataclass(frozen=True)
class Correction(TensorHook):
    """Adds its tensors, c - c_i, to the gradients."""

    def __call__(self, parameters: Tensors) -> None:
        for name, p in parameters.items():
            if p.grad is not None:
                p.grad.add_(self.tensors[name].to(p.device))


class Variates(Client):
    """A client's own control variate c_i, and the gradients that c - c_i corrects."""

    def payload_template(self, model: Tensors) -> dict[str, Tensor]:
        return {**model, **_named({n: torch.zeros_like(x) for n, x in model.items()})}

    def gradient_hook(self, delivery: Delivery, state: State) -> GradientHook:
        server, variate = _variates(delivery.weights), _client_variate(delivery, state)
        correction = {
            n: c - variate[n].to(c.device) if n in variate else c for n, c in server.items()
        }
        return Correction(correction)

    def make_update(
        self, delivery: Delivery, state: State, job: TrainJob, result: TrainResult
    ) -> ClientUpdate:
        """With it the change of c_i: -c, less the way gone over the sum of the learning rates."""
        server, update, rate = _variates(delivery.weights), result.update, result.rate
        change = {n: -c - update[n].to(c.device) / rate for n, c in server.items()}
        return ClientUpdate({**update, **_named(change)})

    def next_state(
        self,
        delivery: Delivery,
        state: State,
        job: TrainJob,
        result: TrainResult,
        update: Tensors,
        packet: Packet,
    ) -> State:
        """c_i, moved by what the server adds to its own.

        That is what was decoded, where the rest is not sent later or a message may be lost; the
        client takes it back where it was not applied. A method with a residual that does not decay
        sends all of the change sooner or later.
        """
        change, variate = _variates(update), _client_variate(delivery, state)
        prefix = free_prefix(CONTROL, change)
        unsent = {*update} if leaves_out(delivery.uplink) else loses(delivery.uplink, update)
        lost = [name for name in change if f"{prefix}/{name}" in unsent]
        change |= {name: packet.sent[f"{prefix}/{name}"].decoded for name in lost}
        before = {
            name: variate[name].to(x.device) if name in variate else torch.zeros_like(x)
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


def _client_variate(delivery: Delivery, state: State) -> State:
    """The client's variate, now that the fate of its last message is known."""
    return unnest(_OWN, state) | ({} if delivery.ack.applied else unnest(_BEFORE, state))


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """Control variates correct each local step; the server has the mean of the clients' variates.

        y_i' = y_i - eta (g_i(y_i) + c - c_i)       (client i, each local iteration from y_i = x)
        c_i' = c_i - c + (x - y_i) / (sum of eta)   (after the last; K eta at a constant rate)
        x' = x + sum_i (y_i - x) / m                (server)
        c' = c + sum_i (c_i' - c_i) / N

    Here x is the server's model, g_i the gradient of a batch, eta the learning rate of a local
    iteration, K the number of these, m the number of clients whose updates are used, and N that of
    all clients; c and all c_i begin as zero. The server adds what it decodes of y_i - x and of
    c_i' - c_i. Where the method leaves something out that it does not send later, c_i moves by what
    was decoded, too.

    Source: Karimireddy et al. 2020 (SCAFFOLD), Algorithm 1: line 12 option II, lines 16 and 17,
    global step size 1.

    Example:
        >>> sorted(Scaffold().client.payload_template({"w": torch.ones(2)}))
        ['control/w', 'w']
    """

    requires = (no_lost_updates, plain_sgd, lossless_downlink, exact_client_state)

    @property
    def client(self) -> Client:
        return Variates()

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        share, mean = len(uplinks) / info.clients, average(uplinks, "uniform")
        return mean | {n: x * share for n, x in _named(_variates(mean)).items()}, state

"""MARINA: now and then the gradient as it is, else how it changed from model to model."""

from collections.abc import Generator
from dataclasses import dataclass

from compressors import Compressor, Packet, State, Tensors, derive
from compressors.contrib.marina import BEFORE, Marina
from compressors.whole.memory import nest, unnest
from strategies.algorithms.base import (
    Client,
    ClientUpdate,
    RoundInfo,
    Step,
    TrainJob,
    TrainResult,
    Uplinks,
)
from strategies.algorithms.gradients import Gradients
from strategies.algorithms.requirements import every_client, exact_client_state, fixed_codes
from strategies.channel.client_end import Delivery


def dense(uplink: Compressor, seed: int, round_number: int) -> bool:
    """Whether all gradients of a round are sent as they are: both ends toss the same coin."""
    assert isinstance(uplink, Marina)
    return round_number == 1 or derive(seed, "dense", round_number) < uplink.p * 2**32


class Twice(Client):
    """A second gradient, of the same batch, at the model of the round before."""

    def make_update(
        self, delivery: Delivery, state: State, job: TrainJob, result: TrainResult
    ) -> Generator[TrainJob, TrainResult, ClientUpdate]:
        """``LookupError`` where the client has no model of the round before."""
        if dense(delivery.uplink, delivery.seed, delivery.round):
            return ClientUpdate(result.update)
        if not state:
            raise LookupError("the client does not hold the model of the round before")
        before = yield job._replace(weights=state)
        return ClientUpdate(result.update, nest(BEFORE, before.update))

    def next_state(
        self,
        delivery: Delivery,
        state: State,
        job: TrainJob,
        result: TrainResult,
        update: Tensors,
        packet: Packet,
    ) -> State:
        """The model of this round."""
        return dict(delivery.weights)


@dataclass(frozen=True)
class MARINA(Gradients):
    """An optimizer's step on g: the clients' mean gradient of a dense round, plus later changes.

        g' = mean_k(G_k(w))                       (a dense round)
        g' = g + mean_k(Q(G_k(w) - G_k(w_old)))   (any other)
        w' = w - eta g'                           (SGD; else the step of ``optimizer`` on g')

    Here G_k(w) is the gradient of one batch of client k at the model w, w_old the model of the
    round before, Q the method inside of ``marina``, and eta the learning rate.

    In a round that is dense all clients send their gradient. In any other they send by ``marina``
    how it differs from that at the model of the round before, on the same batch. Which round is
    dense follows from the seed and its number; the first is. All clients take part in each round,
    and every reply is needed: a client that missed one does not have the model before.

    It takes what ``Gradients`` takes.

    Source: Gorbunov et al. 2021 (MARINA), Algorithm 1, whose gradients are of all samples and
    whose step is that of plain SGD.

    Example:
        >>> from compressors import parse
        >>> from strategies import build
        >>> build(MARINA(), parse("marina(cnat, 0.1)"), clients=4).cohort
        4
    """

    adds_codes = True
    needs_method = Marina.server
    method_example = "marina(randk(0.1) | float32, 0.1)"
    every_reply = True
    requires = (*Gradients.requires, every_client, exact_client_state, fixed_codes)

    @property
    def client(self) -> Client:
        return Twice()

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        mean, gradient_before = self.mean(uplinks, info), unnest("gradient", state)
        is_dense = dense(info.uplink, info.seed, info.number)
        gradient = dict(mean) if is_dense else {n: x + mean[n] for n, x in gradient_before.items()}
        # Copies: an optimizer may write into the gradient that it is given.
        copies = {name: x.clone() for name, x in gradient.items()}
        update, after = self.move(copies, unnest("optimizer", state), model, info)
        return update, nest("gradient", gradient) | nest("optimizer", after)

"""MARINA: now and then the gradient as it is, else how it changed from model to model."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from compressors import Compressor, Packet, State, Tensors, derive
from compressors.whole.marina import BEFORE, Marina
from compressors.whole.memory import nest, unnest
from strategies.algorithms.base import Asked, Change, Client, Job, Refused, Round, Runs, Trained
from strategies.algorithms.gradients import Gradients, check_gradients, stepped
from strategies.channel.client_end import Delivery
from strategies.channel.traffic import Uplink


def dense(uplink: Compressor, seed: int, round_number: int) -> bool:
    """Whether all gradients of a round are sent as they are: both ends toss the same coin."""
    assert isinstance(uplink, Marina)
    return round_number == 1 or derive(seed, "dense", round_number) < uplink.p * 2**32


class Twice(Client):
    """A second gradient, of the same batch, at the model of the round before."""

    def update(
        self, came: Delivery, own: State, job: Job, trained: Trained
    ) -> Generator[Job, Trained, Change]:
        """``LookupError`` where the client has no model of the round before."""
        if dense(came.uplink, came.seed, came.round):
            return Change(trained.update)
        if not own:
            raise LookupError("the client does not hold the model of the round before")
        there = yield job._replace(weights=own)
        return Change(trained.update, nest(BEFORE, there.update))

    def after(
        self, came: Delivery, own: State, job: Job, trained: Trained, update: Tensors,
        packet: Packet,
    ) -> State:  # fmt: skip
        """The model of this round."""
        return dict(came.weights)


@dataclass(frozen=True)
class MARINA(Gradients):
    """An optimizer's step on g: the clients' mean gradient of a dense round, plus later changes.

    In a round that is dense all clients send their gradient. In any other they send by ``marina``
    how it differs from that at the model of the round before, on the same batch. Which round is
    dense follows from the seed and its number; the first is. All clients take part in each round,
    and every reply is needed: a client that missed one does not have the model before.

    It takes what ``Gradients`` takes.

    Source: Gorbunov et al. 2021 (MARINA), Algorithm 1. The step is that of the optimizer; plain SGD
    is the paper's.

    Example:
        >>> from compressors import parse
        >>> from strategies import build
        >>> build(MARINA(), parse("marina(cnat, 0.1)"), clients=4).cohort
        4
    """

    adds_codes: ClassVar[bool] = True
    needs_method: ClassVar[str] = Marina.server
    exact_client_state: ClassVar[bool] = True

    @property
    def client(self) -> Client:
        return Twice()

    def refuse(self, asked: Asked) -> None:
        check_gradients(asked)
        for flag, value in (("--cohort", asked.cohort), ("--min-replies", asked.required)):
            if value != asked.clients:
                raise Refused(
                    f"{flag} is {value} of {asked.clients} clients: with strategy {asked.name} "
                    "every client takes part in every round, for it needs the model of the round "
                    "before"
                )

    def check(self, strategy: Runs) -> None:
        if not isinstance(strategy.uplink, Marina):
            raise ValueError("MARINA adds up changes of gradients: its uplink is marina(...)")
        if not strategy.clients == strategy.cohort == (strategy.required or strategy.clients):
            raise ValueError("MARINA needs every client's reply in every round")

    def step(
        self, uplinks: Mapping[int, Uplink], memory: State, model: Tensors, now: Round
    ) -> tuple[Tensors | None, State]:
        came, known = self.mean(uplinks, now), unnest("gradient", memory)
        whole = dense(now.uplink, now.seed, now.number)
        gradient = dict(came) if whole else {n: x + came[n] for n, x in known.items()}
        # Copies: an optimizer may write into the gradient that it is given.
        update, after = stepped(
            self.optimizer, self.factor(now.number), unnest("optimizer", memory), model,
            {name: x.clone() for name, x in gradient.items()},
            derive(now.seed, "server step", now.number), self.unused,
        )  # fmt: skip
        return update, nest("gradient", gradient) | nest("optimizer", after)

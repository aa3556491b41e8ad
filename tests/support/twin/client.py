"""A client: its local iterations, its momentum, its memory, and what it waits for news of."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.twin import task
from tests.support.twin.draws import Draws
from tests.support.twin.messages import Message, Method


@dataclass(frozen=True)
class Training:
    """How clients train."""

    lr: float
    momentum: float
    proximal: float
    stepped: bool  # whether the learning rate has a step
    masking: str
    stateless: bool = False  # whether momentum is forgotten after each round

    def rate(self, iteration: int) -> float:
        """The learning rate in an iteration of the run."""
        return self.lr * task.rate(self.stepped, iteration)


class Client:
    """One client and what it keeps from message to message."""

    def __init__(
        self, number: int, draws: Draws, training: Training, method: Method, tensors: list[int]
    ) -> None:
        self.number, self.draws, self.training, self.method = number, draws, training, method
        self.tensors = tensors  # the entries of those that it sends
        self.samples = len(draws.shards[number])
        self.done = 0  # local iterations, of its own
        self.velocity = np.zeros(sum(task.TENSORS))
        self.memory = np.zeros(sum(tensors))  # ef: the residual; ef21, diana: the shift
        self.variate = np.zeros(sum(task.TENSORS))  # SCAFFOLD's
        self.moved: Any = 0.0  # how its last message moved that
        self.gone_back = 0  # updates that it took back since the last one that was used
        self.pending: Message | None = None  # its last message, while nobody told what became of it
        self.taken = False  # whether the server took any message of its
        self.holds: int | None = None  # the version of the model that it is known to hold
        self.n, self.p = 0, 0.0  # of its last message

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of its next iteration."""
        places = self.draws.batch(self.number, self.done)
        self.done += 1
        return self.draws.x[places].astype(float), self.draws.y[places].astype(float)

    def train(
        self,
        model: np.ndarray,
        n: int,
        first: int,
        pull: np.ndarray | float = 0.0,
        moves: np.ndarray | float = 1.0,
        sent: int | None = None,
        again: bool = False,
    ) -> tuple[np.ndarray, float]:
        """``n`` local iterations from a model on: how it changed, and the mean training loss.

        Args:
            model: what the client was sent.
            n: local iterations.
            first: the number of the first among those of the run.
            pull: what is added to every gradient (SCAFFOLD).
            moves: 1 for entries that train, 0 for those that stay.
            sent: how many entries the client was sent; None: all. FedProx pulls towards these.
            again: whether the client has trained in this round before.
        """
        now, losses = model.copy(), []
        if self.training.stateless and not again:
            self.velocity = np.zeros(len(model))
        for iteration in range(first, first + n):
            x, y = self.batch()
            losses.append(task.loss(now, x, y))
            away = now - model
            if sent is not None:
                away[sent:] = 0.0
            gradient = task.gradient(now, x, y) + pull + self.training.proximal * away
            self.velocity = self.training.momentum * self.velocity + moves * gradient
            now = now - self.training.rate(iteration) * self.velocity
        return now - model, float(np.mean(losses))

    def send(self, update: np.ndarray, p: float | None) -> Message:
        """Its message, and what it keeps of what the message does not say."""
        if self.method.around == "ef":
            message = self.method.encode(self.memory + update, self.tensors, p)
            self.memory = self.memory + update - message.seen
        elif self.method.around in ("ef21", "diana"):
            message = self.method.encode(update - self.memory, self.tensors, p)
            self.memory = self.memory + message.seen
        else:
            message = self.method.encode(update, self.tensors, p)
            seen = message.seen[len(self.variate) :]  # SCAFFOLD's variate moves by what arrives
            if len(seen):
                self.variate, self.moved = self.variate - self.moved + seen, seen
        if self.masks and message.sparse:
            places = np.flatnonzero(message.sent)
            self.velocity[places[places < len(self.velocity)]] = 0.0
        self.pending = message
        return message

    @property
    def masks(self) -> bool:
        """Whether momentum is set to zero where entries are sent."""
        if self.training.masking == "auto":
            return self.method.masks
        return self.training.masking == "on"

    def take_back(self) -> None:
        """Its last message was not applied: what it carried goes back."""
        assert self.pending is not None
        if self.method.around == "ef":
            self.memory = self.memory + self.pending.seen
        elif self.method.around in ("ef21", "diana"):
            self.memory = self.memory - self.pending.seen
        else:
            self.variate = self.variate - self.moved
        self.pending = None

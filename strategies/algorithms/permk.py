"""Perm-K: the mean of updates whose entries the clients of a round share out among them."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from compressors import State, derive
from compressors.whole import permk
from compressors.whole.memory import nest
from strategies.algorithms.base import Asked, Change, Client, Job, Refused, Runs, Trained
from strategies.algorithms.dsgd import DSGD
from strategies.channel.client_end import Delivery


class Turns(Client):
    """The order of the round, and which part of it is the client's."""

    def update(self, came: Delivery, own: State, job: Job, trained: Trained) -> Change:
        numbers = [derive(came.seed, "permk", came.round), job.client]
        turn = torch.tensor(numbers, device="cpu")
        return Change(trained.update, nest(permk.TURN, {permk.TURN: turn}))


@dataclass(frozen=True)
class PermK(DSGD):
    """The mean of a round's updates, of which every client sends a part of its own by ``permk``.

    All clients take part in each round: the parts of a round make up the update. The entries of a
    client whose reply does not come are zero in that round's mean.

    Source: Szlendak, Tyurin & Richtárik 2021 (https://arxiv.org/abs/2110.03300), Definition 2,
    of updates; the paper has it inside of MARINA, of differences of gradients.

    Example:
        >>> from compressors import parse
        >>> from strategies import build
        >>> build(PermK(), parse("permk(4)"), clients=4).cohort
        4
    """

    adds_codes: ClassVar[bool] = True
    needs_method: ClassVar[str] = permk.PermK.server

    @property
    def client(self) -> Client:
        return Turns()

    def refuse(self, asked: Asked) -> None:
        parts = getattr(asked.uplink, "clients", asked.clients)
        for flag, value in (("--cohort", asked.cohort), ("--method permk", parts)):
            if value != asked.clients:
                raise Refused(
                    f"{flag} is {value} of {asked.clients} clients: with strategy {asked.name} "
                    f"each of them sends a part of its own; give {asked.clients}"
                )

    def check(self, strategy: Runs) -> None:
        uplink = strategy.uplink
        if not isinstance(uplink, permk.PermK):
            raise ValueError("PermK adds up parts of updates: its uplink is permk(clients)")
        if not strategy.clients == strategy.cohort == uplink.clients:
            raise ValueError(
                f"PermK needs every client in every round: clients {strategy.clients}, cohort "
                f"{strategy.cohort}, permk({uplink.clients})"
            )

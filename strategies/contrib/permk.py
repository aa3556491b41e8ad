"""Perm-K: the mean of updates whose entries the clients of a round share out among them."""

from dataclasses import dataclass

import torch

from compressors import State, derive
from compressors.contrib import permk
from compressors.whole.memory import nest
from strategies.algorithms.base import Client, ClientUpdate, TrainJob, TrainResult
from strategies.algorithms.dsgd import DSGD
from strategies.algorithms.requirements import Setup, Unmet, fixed_codes
from strategies.channel.client_end import Delivery


class Turns(Client):
    """The order of the round, and which part of it is the client's."""

    def make_update(
        self, delivery: Delivery, state: State, job: TrainJob, result: TrainResult
    ) -> ClientUpdate:
        numbers = [derive(delivery.seed, "permk", delivery.round), job.client]
        turn = torch.tensor(numbers, device="cpu")
        return ClientUpdate(result.update, nest(permk.TURN, {permk.TURN: turn}))


def one_part_each(algorithm: object, setup: Setup) -> Unmet | None:
    """Every client takes part and sends a part of its own: as many parts as clients."""
    if setup.cohort not in (None, setup.clients):
        return Unmet("cohort", "gives each client a part of its own", f"{setup.clients}")
    parts = setup.uplink.clients if isinstance(setup.uplink, permk.PermK) else setup.clients
    if parts != setup.clients:
        reason = f"gives each of {setup.clients} clients a part of its own"
        return Unmet("uplink", reason, f"permk({setup.clients})")
    return None


@dataclass(frozen=True)
class PermK(DSGD):
    """The mean of a round's updates, of which every client sends a part of its own by ``permk``.

        C_k(u) = N sum_{j in J_k} u_j e_j
        w' = w + mean_k(C_k(u_k))

    Here u_k is the update of client k of N, u_j its entry j, and J_k the client's part of the
    entries in the order that the round's seed draws. The mean is by ``weighting``.

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

    adds_codes = True
    every_reply = True
    requires = (one_part_each, fixed_codes)
    needs_method = permk.PermK.server
    method_example = "permk(4)"

    @property
    def client(self) -> Client:
        return Turns()

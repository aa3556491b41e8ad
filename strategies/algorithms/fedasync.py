"""FedAsync: an asynchronous server whose model moves towards each client's as it comes."""

from dataclasses import dataclass

import torch

from compressors import State, Tensors
from strategies.algorithms.base import Algorithm, RoundInfo, Step, Uplinks
from strategies.algorithms.requirements import simulated_time
from strategies.algorithms.staleness import Staleness, weight


@dataclass(frozen=True)
class FedAsync(Algorithm):
    """Every update moves the model towards its client's model.

        a = server_lr s(t)
        w' = (1 - a) w + a (w_sent + u)

    Here u is the decoded update, w_sent the model that its client was sent, t how many steps the
    server's model w has made since, and s the weight by ``staleness``.

    Args:
        staleness: the weight of an update by how old the model is that it was made from.
        server_lr: in (0, 1]; most of the paper's experiments have 0.6.

    Raises ``ValueError`` for another ``server_lr``.

    Source: Xie et al. 2019 (FedAsync), Algorithm 1, Option I.

    Example:
        >>> FedAsync().server_lr
        0.6
    """

    clock = "server"
    requires = (simulated_time,)
    staleness: Staleness | str = Staleness()
    server_lr: float = 0.6

    def __post_init__(self) -> None:
        weight(self.staleness)
        if not 0 < self.server_lr <= 1:
            raise ValueError(
                f"server_lr is {self.server_lr}: it is the share of a client's model in the mean "
                "of both, and lies in (0, 1]"
            )

    def mixing(self, staleness: int) -> float:
        return self.server_lr * weight(self.staleness)(staleness)

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        ((client, uplink),) = uplinks.items()
        share = self.mixing(info.age[client])
        sent = info.sent[client]
        differences = {n: x + (sent[n] - model[n]) for n, x in uplink.update.items()}
        return {
            n: torch.add(torch.zeros_like(x), x, alpha=share) for n, x in differences.items()
        }, state

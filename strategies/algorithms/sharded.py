"""A parameter server in parts, one at every worker: Aji & Heafield's asynchronous SGD."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from compressors import Compressor, State, Tensors, derive
from strategies.algorithms.base import Algorithm, Asked, Refused, Round
from strategies.algorithms.fedbuff import check_timed
from strategies.algorithms.gradients import Make, check_gradients, constant, stepped
from strategies.channel.traffic import Uplink


@dataclass(frozen=True)
class Sharded(Algorithm):
    """Each of N workers holds 1/N of the parameters, and serves it to all.

    Whoever holds a part makes a step of its optimizer with every gradient at once
    (``strategies.server.sharded``).

    Args:
        optimizer: makes a part's optimizer of its parameters, which are flat.
        factor: round (1, 2, ...) -> factor on its learning rate; a round is N pushes.

    Source: Aji & Heafield 2017, sections 3 and 4.
    """

    clock: ClassVar[Literal["rounds", "server", "shards"]] = "shards"
    gradients: ClassVar[bool] = True
    optimizer: Make = torch.optim.SGD
    factor: Callable[[int], float] = constant

    def parts(self, clients: int) -> int:
        return clients

    def refuse(self, asked: Asked) -> None:
        check_gradients(asked)
        check_timed(asked)
        if asked.cohort != asked.clients:
            raise Refused(
                f"--cohort is {asked.cohort} of {asked.clients} clients: with strategy "
                f"{asked.name} every worker holds a part of the model, so that all take part"
            )
        if any(x != float("inf") for x in (asked.network.server_up, asked.network.server_down)):
            raise Refused(
                f"--network has server_up or server_down: with strategy {asked.name} there is no "
                "server beside the workers, whose own links carry both"
            )

    def downlink(self, asked_method: str, uplink: Compressor) -> Compressor:
        """Pulls are compressed as pushes are (Aji & Heafield 2017, section 4)."""
        return uplink

    def step(
        self, uplinks: Mapping[int, Uplink], memory: State, model: Tensors, now: Round
    ) -> tuple[Tensors | None, State]:
        ((_, uplink),) = uplinks.items()
        seed = derive(now.seed, "server step", now.number)
        factor = self.factor(now.number)
        return stepped(self.optimizer, factor, memory, model, uplink.update, seed)

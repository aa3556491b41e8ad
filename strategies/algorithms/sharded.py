"""A parameter server in parts, one at every worker: Aji & Heafield's asynchronous SGD."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from compressors import Compressor, State, Tensors, derive
from strategies.algorithms.base import Algorithm, Asked, Refused, Round
from strategies.algorithms.fedbuff import check_timed
from strategies.algorithms.gradients import Make, check_gradients, constant, stepped
from strategies.channel.parts import ModelParts
from strategies.channel.traffic import Uplink


@dataclass(frozen=True)
class Sharded(Algorithm):
    """Each of N workers holds 1/N of the parameters, and serves it to all.

    Whoever holds a part makes a step of its optimizer with every gradient at once
    (``strategies.server.sharded``).

    Args:
        optimizer: makes an optimizer of the model's parameters. A part's has the groups of that
            one, and in them what the part holds of each parameter, flat.
        factor: round (1, 2, ...) -> factor on its learning rate; a round is N pushes.
        unused: as ``Gradients``.

    Source: Aji & Heafield 2017, sections 3 and 4.
    """

    clock: ClassVar[Literal["rounds", "server", "shards"]] = "shards"
    gradients: ClassVar[bool] = True
    optimizer: Make = torch.optim.SGD
    factor: Callable[[int], float] = constant
    unused: frozenset[str] = frozenset()

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
        gradient = uplink.update
        return stepped(self.optimizer, factor, memory, model, gradient, seed, self.unused)


def of_part(make: Make, parts: ModelParts, place: int, pieces: list[Parameter]) -> Optimizer:
    """The optimizer that ``make`` makes of a whole model, over the ``pieces`` of one part."""
    whole = {name: Parameter(x) for name, x in parts.like.items()}
    optimizer, spans = make([*whole.values()]), parts.spans[place]
    piece = {id(whole[name]): p for name, p in zip(spans, pieces, strict=True)}
    for group in optimizer.param_groups:
        group["params"] = [piece[id(p)] for p in group["params"] if id(p) in piece]
    begun = {p: optimizer.state.pop(p) for p in whole.values() if p in optimizer.state}
    for name, span in spans.items():  # such as the sums with which Adagrad begins
        p = whole[name]
        for key, x in begun.get(p, {}).items():
            entries = isinstance(x, Tensor) and x.shape == p.shape
            optimizer.state[piece[id(p)]][key] = x.reshape(-1)[span].clone() if entries else x
    return optimizer

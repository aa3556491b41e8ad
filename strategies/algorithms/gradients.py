"""Gradients up, an optimizer's step at the server: DSGD as papers do it that compress gradients."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from compressors import State, Tensors, derive
from strategies.algorithms.base import RoundInfo
from strategies.algorithms.dsgd import DSGD
from strategies.algorithms.requirements import Requirement, one_batch, server_momentum
from strategies.channel.traffic import Uplink
from strategies.client_optimizers import load_optimizer_state, optimizer_state, settings_of
from strategies.generators import seeded

Make = Callable[[list[Parameter]], Optimizer]


def constant(round_number: int) -> float:
    """The factor on a learning rate that stays."""
    return 1.0


@dataclass(frozen=True)
class Gradients(DSGD):
    """Averages compressed gradients; an optimizer at the server makes one step of the mean.

        w' = w - eta factor(t) mean_k(g_k)    (SGD; else the step of ``optimizer`` on the mean)

    Here g_k is the decoded gradient of one batch of client k at w, eta the optimizer's learning
    rate, t the round, and the mean by ``weighting``.

    With a momentum or Adam this is not the mean of the clients' own steps: a row of an embedding
    that one client of four has seen moves by a whole step of Adam, not by a quarter of one.

    Args:
        weighting: as ``DSGD``.
        optimizer: makes the optimizer of the model's parameters.
        factor: round (1, 2, ...) -> factor on its learning rate.
        unused: names of parameters that the loss may not reach. In a round whose mean gradient of
            one is 0, the optimizer leaves that parameter as it is: no weight decay.

    Source: Kostopoulou et al. 2021 (DeepReduce), Figure 12; Aji & Heafield 2017, section 3.

    Example:
        >>> Gradients(optimizer=torch.optim.Adam).weighting
        'uniform'
    """

    gradients: ClassVar[bool] = True
    requires: ClassVar[tuple[Requirement, ...]] = (one_batch, server_momentum)
    optimizer: Make = torch.optim.SGD
    factor: Callable[[int], float] = constant
    unused: frozenset[str] = frozenset()

    def step(
        self, uplinks: Mapping[int, Uplink], state: State, model: Tensors, info: RoundInfo
    ) -> tuple[Tensors | None, State]:
        gradient = self.mean(uplinks, info)
        return optimizer_step(
            self.optimizer,
            self.factor(info.number),
            state,
            model,
            gradient,
            derive(info.seed, "server step", info.number),
            self.unused,
        )


def optimizer_step(
    make: Make,
    factor: float,
    memory: State,
    weights: Tensors,
    gradient: Mapping[str, Tensor],
    seed: int,
    unused: Collection[str] = (),
) -> tuple[dict[str, Tensor], State]:
    """What one step on ``gradient`` adds to ``weights``, and the optimizer's memory after it.

    Args:
        make: makes the optimizer of the model's parameters.
        factor: on its learning rate.
        memory: as the last step returned it; empty before the first one.
        weights: the model.
        gradient: by the same names; the optimizer may write into it.
        seed: of what the optimizer draws.
        unused: names of what has no gradient where that is 0.
    """
    parameters = {name: Parameter(x.detach().clone()) for name, x in weights.items()}
    optimizer = make(list(parameters.values()))
    initial_settings = settings_of(optimizer)
    load_optimizer_state(optimizer, parameters, memory, initial_settings)
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * factor
    for name, p in parameters.items():
        p.grad = gradient[name] if name not in unused or bool(gradient[name].any()) else None
    device = next(iter(weights.values())).device
    with seeded(seed, device):
        optimizer.step()
    after = optimizer_state(optimizer, parameters, initial_settings)
    return {name: p.detach() - weights[name] for name, p in parameters.items()}, after

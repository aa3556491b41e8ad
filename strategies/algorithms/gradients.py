"""Gradients up, an optimizer's step at the server: DSGD as papers do it that compress gradients."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from compressors import State, Tensors, derive
from strategies.algorithms.base import Algorithm, RoundInfo, Step, Uplinks
from strategies.algorithms.dsgd import DSGD
from strategies.algorithms.requirements import Requirement, one_batch, server_momentum
from strategies.client_optimizers import load_optimizer_state, optimizer_state, settings_of
from strategies.generators import seeded

Make = Callable[[list[Parameter]], Optimizer]


def constant(round_number: int) -> float:
    """The factor on a learning rate that stays."""
    return 1.0


@dataclass(frozen=True)
class ServerOptimizer(Algorithm):
    """Clients send gradients, and the server has the optimizer.

    Args:
        optimizer: makes the optimizer of the model's parameters.
        factor: round (1, 2, ...) -> factor on its learning rate.
        unused: names of parameters that the loss may not reach. In a round whose mean gradient of
            one is 0, the optimizer leaves that parameter as it is: no weight decay.
    """

    gradients = True
    optimizer: Make = torch.optim.SGD
    factor: Callable[[int], float] = constant
    unused: frozenset[str] = frozenset()

    def move(
        self, gradient: Tensors, state: State, model: Tensors, info: RoundInfo
    ) -> tuple[dict[str, Tensor], State]:
        """What a step of the optimizer on ``gradient`` adds to the model, and its state after it.

        The optimizer may write into the gradient. ``state``: as the last step returned it.
        """
        parameters = {name: Parameter(x.detach().clone()) for name, x in model.items()}
        optimizer = self.optimizer(list(parameters.values()))
        initial_settings = settings_of(optimizer)
        load_optimizer_state(optimizer, parameters, state, initial_settings)
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * self.factor(info.number)
        for name, p in parameters.items():
            reached = name not in self.unused or bool(gradient[name].any())
            p.grad = gradient[name] if reached else None
        device = next(iter(model.values())).device
        with seeded(derive(info.seed, "server step", info.number), device):
            optimizer.step()
        after = optimizer_state(optimizer, parameters, initial_settings)
        return {name: p.detach() - model[name] for name, p in parameters.items()}, after


@dataclass(frozen=True)
class Gradients(ServerOptimizer, DSGD):
    """Averages compressed gradients; an optimizer at the server makes one step of the mean.

        w' = w - eta factor(t) mean_k(g_k)    (SGD; else the step of ``optimizer`` on the mean)

    Here g_k is the decoded gradient of one batch of client k at w, eta the optimizer's learning
    rate, t the round, and the mean by ``weighting``.

    With a momentum or Adam this is not the mean of the clients' own steps: a row of an embedding
    that one client of four has seen moves by a whole step of Adam, not by a quarter of one.

    Args:
        weighting: as ``DSGD``.
        optimizer: as ``ServerOptimizer``, as are ``factor`` and ``unused``.

    Source: Kostopoulou et al. 2021 (DeepReduce), Figure 12; Aji & Heafield 2017, section 3.

    Example:
        >>> Gradients(optimizer=torch.optim.Adam).weighting
        'uniform'
    """

    requires: ClassVar[tuple[Requirement, ...]] = (one_batch, server_momentum)

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        return self.move(self.mean(uplinks, info), state, model, info)

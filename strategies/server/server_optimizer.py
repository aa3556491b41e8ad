"""Gradients up, an optimizer's step at the server: DSGD as papers do it that compress gradients."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from compressors import Compressor, State, derive
from compressors.whole.memory import inside, nest
from strategies.channel.traffic import Uplink, average
from strategies.generators import seeded
from strategies.optimizers import load_optimizer_state, optimizer_state, settings_of
from strategies.server.delayed import DelayedDSGD


class AtServer:
    """An optimizer at a server: from a gradient to the change of the model.

    Args:
        make: makes the optimizer of the model's parameters.
        factor: round (1, 2, ...) -> factor on its learning rate.
        seed: of what the optimizer draws.
    """

    def __init__(
        self,
        make: Callable[[list[Parameter]], Optimizer],
        factor: Callable[[int], float] = lambda round_number: 1.0,
        seed: int = 0,
    ) -> None:
        self._make, self._factor, self._seed = make, factor, seed
        self._held: State = {}
        self._parameters: dict[str, Parameter] = {}
        self._optimizer: Optimizer | None = None

    def state(self) -> State:
        """The optimizer's memory by kind and parameter."""
        if self._optimizer is None:
            return self._held
        return optimizer_state(self._optimizer, self._parameters, self._made)

    def restore(self, held: State) -> None:
        """Goes on from what ``state`` returned."""
        self._optimizer, self._held = None, held

    def change(
        self, weights: Mapping[str, Tensor], gradient: Mapping[str, Tensor], round_number: int
    ) -> dict[str, Tensor]:
        """What one step on ``gradient`` adds to ``weights``."""
        if self._optimizer is None:
            self._parameters = {n: Parameter(x.clone()) for n, x in weights.items()}
            self._optimizer = self._make(list(self._parameters.values()))
            self._rates = [group["lr"] for group in self._optimizer.param_groups]
            self._made = settings_of(self._optimizer)
            load_optimizer_state(self._optimizer, self._parameters, self._held, self._made)
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * self._factor(round_number)
        with torch.no_grad():
            for name, p in self._parameters.items():
                p.copy_(weights[name])  # with a lossy downlink it is not where it stepped to
                p.grad = gradient[name]
        device = next(iter(weights.values())).device
        with seeded(derive(self._seed, "server step", round_number), device):  # it may draw, too
            self._optimizer.step()
        return {name: p.detach() - weights[name] for name, p in self._parameters.items()}


class Stepped(DelayedDSGD):
    """Averages compressed gradients; an optimizer at the server makes one step of the mean.

    With a momentum or Adam this is not the mean of the clients' own steps: a row of an embedding
    that one client of four has seen moves by a whole step of Adam, not by a quarter of one.

    Args:
        uplink: how clients encode their gradients.
        downlink: how the change of the model is encoded; raw by default.
        optimizer: makes the optimizer of the model's parameters.
        factor: round (1, 2, ...) -> factor on its learning rate.
        common: what ``DelayedDSGD`` takes, but for ``aggregate``.

    Source: Kostopoulou et al. 2021 (DeepReduce), Figure 12; Aji & Heafield 2017, section 3.

    Example:
        >>> from compressors import Raw
        >>> Stepped(Raw(), optimizer=torch.optim.Adam, clients=4).weighting
        'uniform'
    """

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        optimizer: Callable[[list[Parameter]], Optimizer],
        factor: Callable[[int], float] = lambda round_number: 1.0,
        **common: Any,
    ) -> None:
        super().__init__(uplink, downlink, **common)
        self._optimizer = AtServer(optimizer, factor, self.seed)

    def state(self) -> tuple[State, dict[str, Any]]:
        """The channel's memory, and the optimizer's by kind and parameter."""
        tensors, values = super().state()
        return tensors | nest("optimizer", self._optimizer.state()), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        super().restore(tensors, values)
        self._optimizer.restore(inside("optimizer", tensors))

    def _global_update(
        self, uplinks: Mapping[int, Uplink], round_number: int
    ) -> dict[str, Tensor]:
        """One step of the optimizer on the mean gradient, by ``weighting``."""
        assert self.exchange is not None
        gradient = average(uplinks, self.weighting)
        return self._optimizer.change(self.exchange.weights, gradient, round_number)

"""FedProx: each local step pulls towards the model that the client was sent."""

from dataclasses import dataclass

import torch

from compressors import State, Tensors
from strategies.algorithms.base import Client, GradientHook, TensorHook
from strategies.channel.client_end import Delivery


@dataclass(frozen=True)
class FedProx(Client):
    """Each local step follows the gradient of the client's loss plus ``mu / 2 |w - w_sent|^2``.

        g' = g + mu (w - w_sent)

    Here g is the gradient of the client's loss on a batch, w the client's model before the step,
    and w_sent the model that it was sent. The optimizer makes its step with g'.

    A client's half alone: ``chain(FedProx(mu), other)`` goes with every algorithm whose clients
    take local steps.

    Args:
        mu: how strongly it pulls.

    Source: Li et al. 2020 (Federated Optimization in Heterogeneous Networks), equation 2,
    solved inexactly by the run's local iterations.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([3.0]))
        >>> w.grad = torch.tensor([1.0])
        >>> Pull({"w": torch.tensor([1.0])}, 0.5)({"w": w})
        >>> w.grad
        tensor([2.])
    """

    mu: float

    def gradient_hook(self, delivery: Delivery, state: State) -> GradientHook:
        return Pull(delivery.weights, self.mu)


@dataclass(frozen=True)
class Pull(TensorHook):
    """The pull towards the model that was sent, which its tensors are.

    A parameter without a gradient is not trained; one that was not sent, a client's own, is free.
    """

    mu: float

    @torch.no_grad()
    def __call__(self, parameters: Tensors) -> None:
        for name, p in parameters.items():
            if p.grad is not None and name in self.tensors:
                p.grad.add_(p - self.tensors[name].to(p.device), alpha=self.mu)

"""What is added to a client's gradients: FedProx's pull, and SCAFFOLD's correction."""

from collections.abc import Mapping

import torch
from torch import Tensor


@torch.no_grad()
def pull(parameters: Mapping[str, Tensor], sent: Mapping[str, Tensor], mu: float) -> None:
    """Adds the gradient of the distance, mu (w - w sent), to the gradients that are there.

    Source: Li et al. 2020 (Federated Optimization in Heterogeneous Networks), equation 2.

    Args:
        parameters: the model's by name; one without a gradient is not trained and stays.
        sent: the model that the client was sent, by the same names and shapes.
        mu: how strongly it pulls.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([3.0]))
        >>> w.grad = torch.tensor([1.0])
        >>> pull({"w": w}, {"w": torch.tensor([1.0])}, 0.5)
        >>> w.grad
        tensor([2.])
    """
    for name, p in parameters.items():
        if p.grad is not None:
            p.grad.add_(p - sent[name], alpha=mu)


@torch.no_grad()
def correct(parameters: Mapping[str, Tensor], correction: Mapping[str, Tensor]) -> None:
    """Adds to each gradient what SCAFFOLD's control variates say (``fedsim.federation.control``).

    Args:
        parameters: the model's by name; one without a gradient is not trained and stays.
        correction: by the same names and shapes; empty: nothing is added.
    """
    for name, p in parameters.items() if correction else ():
        if p.grad is not None:
            p.grad.add_(correction[name].to(p.device))

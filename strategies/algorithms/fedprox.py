"""FedProx: each local step pulls towards the model that the client was sent."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from compressors import Packet, State, Tensors
from strategies.algorithms.base import PLAIN, Change, Client, Force, Job, Trained
from strategies.channel.client_end import Delivery


@dataclass(frozen=True)
class FedProx(Client):
    """Adds the gradient of mu / 2 times the squared distance: mu (w - w sent).

    A client's half alone: it goes with every algorithm whose clients take local steps.

    Args:
        mu: how strongly it pulls.
        inner: what else the clients do.

    Source: Li et al. 2020 (Federated Optimization in Heterogeneous Networks), equation 2.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([3.0]))
        >>> w.grad = torch.tensor([1.0])
        >>> pull(0.5, {"w": torch.tensor([1.0])})({"w": w})
        >>> w.grad
        tensor([2.])
    """

    mu: float
    inner: Client = PLAIN

    def shares(self, model: Tensors) -> dict[str, Tensor]:
        return self.inner.shares(model)

    def begins(self, came: Delivery, own: State) -> Tensors:
        return self.inner.begins(came, own)

    def force(self, came: Delivery, own: State) -> Force:
        towards, other = pull(self.mu, came.weights), self.inner.force(came, own)

        def both(parameters: Mapping[str, Tensor]) -> None:
            towards(parameters)
            if other is not None:
                other(parameters)

        return both

    def update(
        self, came: Delivery, own: State, job: Job, trained: Trained
    ) -> Change | Generator[Job, Trained, Change]:
        return self.inner.update(came, own, job, trained)

    def after(
        self, came: Delivery, own: State, job: Job, trained: Trained, update: Tensors,
        packet: Packet,
    ) -> State:  # fmt: skip
        return self.inner.after(came, own, job, trained, update, packet)


def pull(mu: float, sent: Mapping[str, Tensor]) -> Force:
    """The pull towards the model ``sent``.

    A parameter without a gradient is not trained; one that was not sent, a client's own, is free.
    """
    here: dict[str, Tensor] = {}  # where the parameters are

    @torch.no_grad()
    def add(parameters: Mapping[str, Tensor]) -> None:
        for name, p in parameters.items():
            if p.grad is not None and name in sent:
                if name not in here:
                    here[name] = sent[name].to(p.device)
                p.grad.add_(p - here[name], alpha=mu)

    return add

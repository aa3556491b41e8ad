"""FedPer: some layers stay with each client."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import Tensor

from compressors import Packet, State, Tensors
from strategies.algorithms.base import Client, ClientUpdate, TrainJob, TrainResult
from strategies.algorithms.dsgd import DSGD
from strategies.channel.client_end import Delivery


@dataclass(frozen=True)
class Personal(Client):
    """Layers that a client trains and does not send.

    Args:
        layers: a layer's name, such as ``7`` or ``head.fc``, or a pattern of tensors' names, such
            as ``head.*.bias``; empty: the last layer.
    """

    layers: str = ""

    def payload_template(self, model: Tensors) -> dict[str, Tensor]:
        """Raises ``ValueError`` where no tensor is personal, or every one is."""
        personal = self._personal(model)
        if not 0 < len(personal) < len(model):
            raise ValueError(
                f"layers is {self.layers!r}: {len(personal)} of the model's {len(model)} tensors "
                f"are personal; give a layer, or a pattern of some of {', '.join(model)}"
            )
        return {name: x for name, x in model.items() if name not in personal}

    def initial_weights(self, delivery: Delivery, state: State) -> Tensors:
        return {**delivery.weights, **state}

    def make_update(
        self, delivery: Delivery, state: State, job: TrainJob, result: TrainResult
    ) -> ClientUpdate:
        return ClientUpdate({n: x for n, x in result.update.items() if n in delivery.weights})

    def next_state(
        self,
        delivery: Delivery,
        state: State,
        job: TrainJob,
        result: TrainResult,
        update: Tensors,
        packet: Packet,
    ) -> State:
        moved = {n: x for n, x in result.update.items() if n not in delivery.weights}
        return {name: job.weights[name].to(x.device) + x for name, x in moved.items()}

    def _personal(self, model: Tensors) -> set[str]:
        last = [*model][-1]
        layer = f"{self.layers}" or last.rpartition(".")[0] or last
        return {n for n in model if fnmatchcase(n, layer) or n.startswith(f"{layer}.")}


@dataclass(frozen=True)
class FedPer(DSGD):
    """The mean of the updates of all layers but the personal ones.

        (w_k, v_k') = SGD_n(f_k; w, v_k)    (client k, all layers in n local iterations)
        w' = w + mean_k(u_k)                (server)

    Here w are the shared layers, v_k the personal ones of client k, f_k its loss, SGD_n the local
    iterations with the run's optimizer, and u_k what the server decodes of w_k - w. The mean is by
    ``weighting``. The server has no personal layers: a run is scored with the clients' own.

    Args:
        weighting: as ``DSGD``.
        layers: the personal layer's name, or a pattern of tensors' names; empty: the last layer.

    Source: Arivazhagan et al. 2019 (Federated learning with personalization layers), Algorithms 1
    and 2.

    Example:
        >>> import torch
        >>> model = {"0.weight": torch.ones(2), "1.weight": torch.ones(2), "1.bias": torch.ones(1)}
        >>> [*FedPer().client.payload_template(model)]
        ['0.weight']
    """

    layers: str = ""

    @property
    def client(self) -> Client:
        return Personal(self.layers)

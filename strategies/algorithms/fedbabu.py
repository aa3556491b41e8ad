"""FedBABU: the head stays as it was drawn while the body is trained; clients fine-tune later."""

from dataclasses import dataclass

from compressors import Packet, State, Tensors
from strategies.algorithms.base import Client, GradientHook, TensorHook, TrainJob, TrainResult
from strategies.algorithms.dsgd import DSGD
from strategies.algorithms.fedper import Personal
from strategies.channel.client_end import Delivery


@dataclass(frozen=True)
class Freeze(TensorHook):
    """Leaves parameters without a gradient, except those of the names ``trained``."""

    trained: frozenset[str]

    def __call__(self, parameters: Tensors) -> None:
        for name, p in parameters.items():
            if name not in self.trained:
                p.grad = None


@dataclass(frozen=True)
class Body(Personal):
    """Layers that nobody trains and nobody sends: all have them as the seed drew them.

    For ``fine_tune`` local iterations a client trains all layers before it is scored.
    """

    fine_tune: int = 0

    @property
    def fine_tuning(self) -> int:
        return self.fine_tune

    def gradient_hook(self, delivery: Delivery, state: State) -> GradientHook:
        return Freeze({}, frozenset(delivery.weights))

    def next_state(
        self,
        delivery: Delivery,
        state: State,
        job: TrainJob,
        result: TrainResult,
        update: Tensors,
        packet: Packet,
    ) -> State:
        return {}


@dataclass(frozen=True)
class FedBABU(DSGD):
    """The mean of the updates of the body; the head of the initial model is never trained.

        w_k' = w_k - eta grad_w f_k(w_k, v)    (client k, from w_k = w; v stays)
        w' = w + mean_k(u_k)                   (server)

    Here w is the body, v the head as the seed drew it, f_k the loss of client k, eta the learning
    rate, and u_k what the server decodes of w_k - w. The mean is by ``weighting``.

    To be scored, a client trains body and head for ``fine_tune`` local iterations from the model
    that it would be sent, and forgets both afterwards. The optimizer begins anew. With momentum a
    few iterations can make the model worse than none: fine-tune for whole epochs.

    Args:
        weighting: as ``DSGD``.
        layers: the head's name, or a pattern of tensors' names; empty: the last layer.
        fine_tune: these local iterations; 0: clients are scored with the head as it was drawn, the
            paper's model before personalization.

    Raises ``ValueError`` for fine_tune below 0.

    Source: Oh et al. 2022 (FedBABU: Toward enhanced representation for federated image
    classification, https://arxiv.org/abs/2106.06042), Algorithm 1 and Section 5.2.

    Example:
        >>> FedBABU(fine_tune=10).client.fine_tuning
        10
    """

    layers: str = ""
    fine_tune: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.fine_tune, int) and self.fine_tune >= 0):
            raise ValueError(f"fine_tune is {self.fine_tune}: a whole number, 0 at least")

    @property
    def client(self) -> Client:
        return Body(self.layers, self.fine_tune)

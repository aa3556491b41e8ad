"""FedRep: a client fits its head to the shared layers, then the shared layers to its head."""

from collections.abc import Collection
from dataclasses import dataclass

from compressors import State, Tensors
from strategies.algorithms.base import Client, GradientHook
from strategies.algorithms.dsgd import DSGD
from strategies.algorithms.fedper import Personal
from strategies.algorithms.requirements import Setup, Unmet, more_steps_than
from strategies.channel.client_end import Delivery


class HeadFirst:
    """Keeps the ``shared`` layers as they are in the first ``head_steps``, and then the others.

    A parameter without a gradient is not moved: neither weight decay nor momentum moves it.
    """

    def __init__(self, shared: Collection[str], head_steps: int) -> None:
        self.shared, self.head_steps, self.step = shared, head_steps, 0

    def __call__(self, parameters: Tensors) -> None:
        """The gradients of one step: those that are not trained now become None."""
        self.step += 1
        trains_shared = self.step > self.head_steps
        for name, p in parameters.items():
            if (name in self.shared) != trains_shared:
                p.grad = None


@dataclass(frozen=True)
class Alternating(Personal):
    """Personal layers that are trained before the shared ones, for ``head_steps`` local steps."""

    head_steps: int = 1

    def gradient_hook(self, delivery: Delivery, state: State) -> GradientHook:
        return HeadFirst(delivery.weights.keys(), self.head_steps)


def steps_for_both(algorithm: "FedRep", setup: Setup) -> Unmet | None:
    """A round has more local steps than those of the head, and nobody changes their number."""
    steps = f"trains the head for {algorithm.head_steps} local iterations and then the other layers"
    return more_steps_than(algorithm.head_steps, steps, setup)


@dataclass(frozen=True)
class FedRep(DSGD):
    """The mean of the updates of the shared layers, which clients train after their own head.

        v_k' = v_k - eta grad_v f_k(w, v_k)      (client k, head_steps local iterations)
        w_k' = w_k - eta grad_w f_k(w_k, v_k)    (then n - head_steps, from w_k = w)
        w' = w + mean_k(u_k)                     (server)

    Here w are the shared layers that client k was sent, v_k its head, f_k its loss, eta the
    learning rate, n the local iterations of a round, and u_k what the server decodes of w_k - w.
    The lines of the client are steps of plain SGD; another optimizer makes its own. The mean is by
    ``weighting``.

    Args:
        weighting: as ``DSGD``.
        layers: the head's name, or a pattern of tensors' names; empty: the last layer.
        head_steps: local iterations of a round that train the head.

    Raises ``ValueError`` for head_steps below 1.

    Source: Collins et al. 2021 (Exploiting shared representations for personalized federated
    learning, https://arxiv.org/abs/2102.07078), Algorithm 1.

    Example:
        >>> FedRep(head_steps=8).client
        Alternating(layers='', head_steps=8)
    """

    requires = (steps_for_both,)
    layers: str = ""
    head_steps: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.head_steps, int) and self.head_steps >= 1):
            raise ValueError(f"head_steps is {self.head_steps}: a whole number, 1 at least")

    @property
    def least_steps(self) -> int:
        """One more than those of the head."""
        return self.head_steps + 1

    @property
    def client(self) -> Client:
        return Alternating(self.layers, self.head_steps)

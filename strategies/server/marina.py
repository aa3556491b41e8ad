"""MARINA's server: the gradient that it holds, set anew in dense rounds and changed in others."""

from collections.abc import Mapping
from typing import Any, ClassVar

from flwr.app import ConfigRecord, Message
from flwr.serverapp import Grid
from torch import Tensor

from compressors import Compressor, State, derive
from compressors.whole.marina import Marina
from compressors.whole.memory import inside, nest
from strategies.channel.traffic import Uplink, average
from strategies.server.server_optimizer import Stepped

DENSE = "dense"
"""In a message to a client: this round's gradient is sent as it is."""


class Estimated(Stepped):
    """An optimizer's step on g: the clients' mean gradient of a dense round, plus later changes.

    In a round that is dense all clients send their gradient. In any other they send by ``marina``
    how it differs from that at the model of the round before, on the same batch. Which round is
    dense follows from the seed and its number; the first is. All clients take part in each round,
    and every reply is needed: a client that missed one does not have the model before.

    Args:
        uplink: ``marina`` of a compressor.
        downlink: how the change of the model is encoded; raw by default.
        common: what ``Stepped`` takes.

    Raises ``ValueError`` for any other uplink, and for rounds without some of the clients.

    Source: Gorbunov et al. 2021 (MARINA), Algorithm 1. The step is that of the optimizer; plain SGD
    is the paper's.

    Example:
        >>> import torch
        >>> from compressors import parse
        >>> Estimated(parse("marina(cnat, 0.1)"), optimizer=torch.optim.SGD, clients=4).cohort
        4
    """

    serves: ClassVar[str] = Marina.server

    def __init__(
        self, uplink: Compressor, downlink: Compressor | None = None, **common: Any
    ) -> None:
        if not isinstance(uplink, Marina):
            raise ValueError("Estimated adds up changes of gradients: its uplink is marina(...)")
        super().__init__(uplink, downlink, **common)
        if not self.clients == self.cohort == (self.required or self.clients):
            raise ValueError("Estimated needs every client's reply in every round")
        self._p, self._gradient = uplink.p, State()

    def dense(self, server_round: int) -> bool:
        """Whether all gradients of a round are sent as they are."""
        coin = derive(self.seed, "dense", server_round) < self._p * 2**32
        return coin or not self._gradient

    def ask(self, server_round: int, config: ConfigRecord, grid: Grid) -> list[Message]:
        """See ``ChannelStrategy.ask``; clients are told whether the round is dense."""
        told = ConfigRecord({**config, DENSE: self.dense(server_round)})
        return super().ask(server_round, told, grid)

    def state(self) -> tuple[State, dict[str, Any]]:
        """The channel's memory, the optimizer's, and the gradient."""
        tensors, values = super().state()
        return tensors | nest("gradient", self._gradient), values

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        super().restore(tensors, values)
        self._gradient = inside("gradient", tensors)

    def _global_update(
        self, uplinks: Mapping[int, Uplink], round_number: int
    ) -> dict[str, Tensor]:
        """One step of the optimizer on the gradient that is known now."""
        assert self.exchange is not None
        came, dense = average(uplinks, self.weighting), self.dense(round_number)
        self._gradient = came if dense else {n: x + came[n] for n, x in self._gradient.items()}
        # Copies: an optimizer may write into the gradient that it is given.
        gradient = {name: x.clone() for name, x in self._gradient.items()}
        return self._optimizer.change(self.exchange.weights, gradient, round_number)

"""Dropout whose masks only depend on (seed, client, iteration), not on other clients.

`torch.nn.Dropout` draws from torch's global generator, which all clients of a process share: its
masks depend on who drew before. The layers here have a generator each; the trainer seeds them
before every step, so that a run ends with the same bits on any number of workers, and when it is
resumed.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from compressors import derive
from fedsim.ground.errors import UsageError


class Dropout(nn.Module):
    """Zeroes entries with probability `p` and divides the others by 1 - p, while training.

    Args:
        p: probability in [0, 1).

    Source: Srivastava et al., "Dropout: a simple way to prevent neural networks from
    overfitting", 2014; scaled while training, as torch does it.

    Example:
        >>> layer = Dropout(0.5)
        >>> layer.reseed(7)
        >>> first = layer(torch.ones(1000))
        >>> layer.reseed(7)
        >>> torch.equal(first, layer(torch.ones(1000))), sorted(set(first.tolist()))
        (True, [0.0, 2.0])
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise UsageError(f"dropout: p is {p}; it lies in [0, 1)")
        self.p = p
        self.seed = 0
        self._generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """`x` with a new mask, of its shape; `x` itself in evaluation."""
        if not self.training or self.p == 0:
            return x
        mask = torch.empty_like(x).bernoulli_(1 - self.p, generator=self.generator(x.device))
        return x * mask.div_(1 - self.p)

    def generator(self, device: torch.device) -> torch.Generator:
        """The layer's generator on `device`, which `reseed` seeds."""
        if self._generator is None or self._generator.device != device:
            self._generator = torch.Generator(device).manual_seed(self.seed)
        return self._generator

    def reseed(self, seed: int) -> None:
        """The masks from now on follow from `seed`."""
        self.seed = seed
        if self._generator is not None:
            self._generator.manual_seed(seed)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def dropouts(model: nn.Module) -> list[Dropout]:
    """The `Dropout` layers in `model`, in the order of its modules."""
    return [layer for layer in model.modules() if isinstance(layer, Dropout)]


def reseed(layers: Iterable[Dropout], seed: int) -> None:
    """Seeds every layer, each in its own way."""
    for ordinal, layer in enumerate(layers):
        layer.reseed(derive(seed, ordinal))


def own_masks(model: nn.Module) -> nn.Module:
    """`model` with every `torch.nn.Dropout` in it replaced by `Dropout`.

    Raises:
        UsageError: a layer draws from torch's global generator in a way that cannot be replaced
            (`nn.LSTM(dropout=...)`, `nn.Dropout2d`): the message has what to write instead.
    """
    for name, layer in model.named_modules():
        instead = ""
        if isinstance(layer, nn.RNNBase | nn.MultiheadAttention) and layer.dropout > 0:
            instead = "leave it at 0 and put fedsim.tasks.Dropout between the layers"
        elif isinstance(layer, nn.modules.dropout._DropoutNd) and type(layer) is not nn.Dropout:
            instead = "use fedsim.tasks.Dropout, which drops entries"
        if instead:
            raise UsageError(
                f"model: {name or 'it'} is {type(layer).__name__} with dropout drawn from torch's "
                f"global generator, which other clients draw from, too: {instead}"
            )
        for child, inner in layer.named_children():
            if type(inner) is nn.Dropout:
                setattr(layer, child, Dropout(inner.p))
    return Dropout(model.p) if type(model) is nn.Dropout else model

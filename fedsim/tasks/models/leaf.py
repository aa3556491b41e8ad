"""The networks of LEAF (Caldas et al. 2018) and of Reddi et al. 2021 for data that come by user."""

from __future__ import annotations

from torch import Tensor, nn

from fedsim.tasks.mnist import LeNet5
from fedsim.tasks.models.text import Layer

CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""The 80 characters of LEAF's Shakespeare; any other is numbered as the last one."""


def femnist() -> nn.Module:
    """LEAF's CNN, newly initialised: images (B, 1, 28, 28) -> logits (B, 62).

    Two convolutions of 5 x 5 with 32 and 64 channels, each with ReLU and max-pooling of 2 x 2, then
    a layer of 2048 units with ReLU.

    Example:
        >>> sum(p.numel() for p in femnist().parameters())
        6603710
    """
    return LeNet5(channels=(32, 64), padding=2, hidden=2048, classes=62)


class NextCharacter(nn.Module):
    """Characters (B, T), int64 -> logits (B, 80) of the character after them: LEAF's stacked LSTM.

    An embedding of 8, two LSTM layers of 256, and a linear layer of the last output.

    Example:
        >>> sum(p.numel() for p in NextCharacter().parameters())
        817872
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(CHARACTERS), 8)
        self.layers = nn.ModuleList([Layer(8, 256), Layer(256, 256)])
        self.output = nn.Linear(256, len(CHARACTERS))
        _initial(self.layers, 256)

    def forward(self, symbols: Tensor) -> Tensor:
        """Logits (B, 80)."""
        x = self.embedding(symbols.t())
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.output(x[-1])
        return logits


class NextWord(nn.Module):
    """Words (B, T), int64 -> logits (B, T, symbols) of the words that follow: Reddi et al. 2021.

    An embedding of 96, an LSTM layer of 670, a linear layer back to 96 and one to the vocabulary.

    Example:
        >>> sum(p.numel() for p in NextWord(10_004).parameters())
        4050748
    """

    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, 96)
        self.layers = nn.ModuleList([Layer(96, 670)])
        self.narrow, self.output = nn.Linear(670, 96), nn.Linear(96, symbols)
        _initial(self.layers, 670)

    def forward(self, symbols: Tensor) -> Tensor:
        """Logits (B, T, symbols)."""
        x = self.layers[0](self.embedding(symbols.t()))
        logits: Tensor = self.output(self.narrow(x.transpose(0, 1)))
        return logits


def _initial(layers: nn.ModuleList, hidden: int) -> None:
    """Weights uniform in +-1/sqrt(hidden), as torch's LSTM has them; biases stay zero."""
    for parameter in layers.parameters():
        if parameter.dim() > 1:
            nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5)

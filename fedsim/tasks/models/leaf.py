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

    An embedding of 8, two LSTM layers of 256, and a linear layer of the last output. Weights start
    as in LEAF's code: Glorot's uniform, the biases of forget gates one, the other biases zero.

    Example:
        >>> sum(p.numel() for p in NextCharacter().parameters())
        817872
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(CHARACTERS), 8)
        lstms = [Layer(8, 256), Layer(256, 256)]
        self.layers = nn.ModuleList(lstms)
        self.output = nn.Linear(256, len(CHARACTERS))
        for table in (self.embedding.weight, self.output.weight):
            nn.init.xavier_uniform_(table)
        for inputs, lstm in zip((8, 256), lstms, strict=True):
            limit = (6 / (inputs + 256 + 4 * 256)) ** 0.5  # TensorFlow has both weights in one
            for weight in (lstm.weight_ih, lstm.weight_hh):
                nn.init.uniform_(weight, -limit, limit)
        _initial_biases(self)

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
    Weights start as in the paper's code: the embedding uniform in +-0.05, the LSTM's inputs He's
    normal, its recurrent weights orthogonal, the linear layers Glorot's normal; the biases of
    forget gates one, the other biases zero.

    Example:
        >>> sum(p.numel() for p in NextWord(10_004).parameters())
        4050748
    """

    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, 96)
        lstm = Layer(96, 670)
        self.layers = nn.ModuleList([lstm])
        self.narrow, self.output = nn.Linear(670, 96), nn.Linear(96, symbols)
        nn.init.uniform_(self.embedding.weight, -0.05, 0.05)
        nn.init.kaiming_normal_(lstm.weight_ih)
        nn.init.orthogonal_(lstm.weight_hh)
        for weight in (self.narrow.weight, self.output.weight):
            nn.init.xavier_normal_(weight)
        _initial_biases(self)

    def forward(self, symbols: Tensor) -> Tensor:
        """Logits (B, T, symbols)."""
        x = self.layers[0](self.embedding(symbols.t()))
        logits: Tensor = self.output(self.narrow(x.transpose(0, 1)))
        return logits


def _initial_biases(model: nn.Module) -> None:
    """Zero, and one at the forget gates of LSTM layers, the second quarter of torch's order."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear | Layer):
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
        if isinstance(layer, Layer):
            nn.init.ones_(layer.bias[layer.hidden : 2 * layer.hidden])

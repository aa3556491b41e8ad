"""Tasks beside fedsim's: a wide MLP on Fashion-MNIST, an LSTM and a transformer of characters."""

import gzip
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from fedsim.tasks import Data, Task, get_task

_WINDOW = 50  # characters


def mlp() -> nn.Module:
    """784-1024-1024-10 with ReLU; 1,863,690 parameters."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 1024),
        nn.ReLU(),
        nn.Linear(1024, 1024),
        nn.ReLU(),
        nn.Linear(1024, 10),
    )


class CharLSTM256(nn.Module):
    """Characters (B, T) -> logits (B, T, 65); embedding 64, one LSTM layer of 256 units."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(65, 64)
        self.lstm = nn.LSTM(64, 256, batch_first=True)
        self.out = nn.Linear(256, 65)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of the next character at every place."""
        return self.out(self.lstm(self.embed(x))[0])


class WordLSTM(nn.Module):
    """Words (B, T) -> logits (B, T, 10000) by two LSTM layers, without dropout.

    Weights are uniform in +-``scale``, as Zaremba et al. 2014 begin with them; an LSTM of PyTorch
    has two biases per gate. 66,034,000 parameters of 1,500 units (their "large").

    Args:
        units: of the embedding and of a layer.
        scale: of the first weights.
        norm: whether the embedding and both layers' outputs are layer-normalized.
    """

    def __init__(self, units: int, scale: float, norm: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(10_000, units)
        self.layers = nn.ModuleList(nn.LSTM(units, units, batch_first=True) for _ in range(2))
        self.out = nn.Linear(units, 10_000)
        for weight in self.parameters():
            nn.init.uniform_(weight, -scale, scale)
        self.norms = nn.ModuleList(nn.LayerNorm(units) if norm else nn.Identity() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """The logits of the next word at every place."""
        first, *norms = self.norms
        x = first(self.embed(x))
        for layer, norm in zip(self.layers, norms, strict=True):
            x = norm(layer(x)[0])
        return self.out(x)


def load_text(folder: Path | None = None, download: bool = False) -> Data:
    """Windows of 50 of Tiny Shakespeare's 65 characters, targets one character later."""
    base = folder or Path(os.environ["FEDSIM_DATA"])
    raw = gzip.decompress((base / "shakespeare" / "tinyshakespeare.txt.gz").read_bytes())
    codes = torch.from_numpy(np.unique(np.frombuffer(raw, np.uint8), return_inverse=True)[1])
    count = (len(codes) - 1) // _WINDOW
    x = codes[: count * _WINDOW].view(count, _WINDOW)
    y = codes[1 : count * _WINDOW + 1].view(count, _WINDOW)
    kept = count * 9 // 10
    return Data(x[:kept], y[:kept], x[kept:], y[kept:], "Tiny Shakespeare")


def right_characters(outputs: Tensor, targets: Tensor) -> Tensor:
    """The share of a window's next characters that are right, summed over windows."""
    return (outputs.argmax(dim=-1) == targets).float().mean(-1).sum()


FASHION_MLP = Task(
    name="fashion_mlp",
    title="Fashion-MNIST, MLP 784-1024-1024-10 (1,863,690 parameters)",
    source="position-coding",
    build=mlp,
    load=get_task("fashion_lenet5").load,
    optimizer=lambda parameters: Adam(parameters, lr=0.001),
    loss=get_task("fashion_lenet5").loss,
    metric=get_task("fashion_lenet5").metric,
    channels_last=False,
)
CHAR_LSTM256 = Task(
    name="char_lstm256",
    title="Tiny Shakespeare by character, LSTM of 256 units (350,593 parameters)",
    source="position-coding",
    build=CharLSTM256,
    load=load_text,
    optimizer=lambda parameters: Adam(parameters, lr=0.002),
    loss=lambda outputs, targets: F.cross_entropy(outputs.flatten(0, 1), targets.flatten()),
    metric=right_characters,
    channels_last=False,
)


def _untrained() -> nn.Module:
    """The decoder of `char_transformer` with weights as GPT-2 begins with them."""
    model = get_task("char_transformer").build()
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
        else:
            nn.init.constant_(parameter, 1.0 if name.endswith("weight") else 0.0)
    return model


CHAR_TRANSFORMER_NEW = replace(
    get_task("char_transformer"),
    name="char_transformer_new",
    source="crossing",
    title="Shakespeare by characters, a transformer from nothing (116,096 parameters)",
    build=_untrained,
    metric=right_characters,
    metric_name="accuracy",
    reported=float,
    higher_is_better=True,
)

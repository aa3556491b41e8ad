"""A task to be followed by hand: three numbers, which each client pulls to a target of its own.

The loss is the sum of (w - target)^2 / 2 over the three, and the learning rate is 1/2: a local
iteration goes half-way to the target. What travels raw has 3 bytes of header and 4 per number:
120 bits. Links and times can be given to every client by hand, too.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim import SGD

from fedsim import Data
from fedsim.network.rates import ConstantRates
from fedsim.network.spec import Links, NetworkSpec

MODEL = 120
"""The bits of a model or an update of three numbers, sent raw."""


class Three(nn.Module):
    """Three numbers, that are zero at first."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.w * x


def threes(targets: Sequence[Any], samples: int = 2, more: int = 0, **fields: Any) -> Any:
    """The fields of a task whose clients have these targets: one number for all three, or three.

    Each client has so many samples, and the first has ``more`` beside.
    """
    ends = [torch.zeros(3) + torch.tensor(target) for target in targets]
    counts = [samples + (more if client == 0 else 0) for client in range(len(ends))]
    y = torch.cat([end.repeat(count, 1) for end, count in zip(ends, counts, strict=True)])
    data = Data(torch.ones(len(y), 3), y, torch.ones(1, 3), torch.zeros(1, 3), "made up")
    return {
        "build": Three,
        "load": lambda folder, download: data,
        "clients": len(ends),
        "optimizer": lambda parameters: SGD(parameters, lr=0.5),
        "partition": "contiguous",
        "loss": lambda out, y: (out - y).square().sum(1).mean() / 2,
        "batch_size": 1,
        "metric": lambda out, y: (out - y).square().sum(),
    } | fields


def give_links(monkeypatch: pytest.MonkeyPatch, **own: Sequence[float]) -> None:
    """Gives clients what is named; the network's text says the rest.

    ``up`` and ``down`` are in bits per second, ``latency`` and ``compute`` in seconds.
    """
    plain = NetworkSpec.links

    def links(self: NetworkSpec, *given: Any, **named: Any) -> Links:
        made = plain(self, *given, **named)
        arrays = {name: np.array(values, float) for name, values in own.items()}
        return replace(
            made,
            **{
                name: ConstantRates(values) if name in ("up", "down") else values
                for name, values in arrays.items()
            },
        )

    monkeypatch.setattr(NetworkSpec, "links", links)


def table(folder: Path) -> pd.DataFrame:
    """``rounds.parquet``, with its times."""
    return pd.read_parquet(folder / "rounds.parquet")


def last(folder: Path) -> list[float]:
    """The three numbers at the end of a run."""
    return load_file(folder / "model.safetensors")["w"].tolist()

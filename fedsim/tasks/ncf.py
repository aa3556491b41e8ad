"""`ncf`: neural collaborative filtering on MovieLens, with the settings of DeepReduce (Kostopoulou
et al. 2021) and, where it has none, of NVIDIA's recipe: see docs/tasks.md.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedsim.tasks.base import Data, Task
from fedsim.tasks.data import recommend
from fedsim.tasks.data.memo import read_once
from fedsim.tasks.models.dropout import Dropout
from fedsim.tasks.tasklist import about
from strategies.client_optimizers import Adam

NCF_FACTORS = 64
LAYERS = (256, 256, 128, 64)
DROP = 0.5
TOP = 10


class NeuMF(nn.Module):
    """Pairs (..., 2) of user and item -> logits (...) that they go together.

    A product of 64 factors of user and item, and three layers over 128 inputs of each, joined by
    one linear layer. Embeddings start as N(0, 0.01^2), the layers as Glorot's and LeCun's uniform.

    Source: He et al., "Neural collaborative filtering", 2017, section 3.4.

    Example:
        >>> sum(p.numel() for p in NeuMF(610, 9724).parameters())
        2091201
    """

    def __init__(self, users: int, items: int) -> None:
        super().__init__()
        half = LAYERS[0] // 2
        self.user_factors = nn.Embedding(users, NCF_FACTORS)
        self.item_factors = nn.Embedding(items, NCF_FACTORS)
        self.user_inputs = nn.Embedding(users, half)
        self.item_inputs = nn.Embedding(items, half)
        pairs = zip(LAYERS, LAYERS[1:], strict=False)
        layers = [nn.Linear(a, b) for a, b in pairs]
        self.layers = nn.ModuleList(layers)
        self.dropouts = nn.ModuleList(Dropout(DROP) for _ in self.layers)
        self.join = nn.Linear(NCF_FACTORS + LAYERS[-1], 1)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.01)
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
        nn.init.kaiming_uniform_(self.join.weight, nonlinearity="linear")  # LeCun's

    def forward(self, pairs: Tensor) -> Tensor:
        """Logits (...) of pairs (..., 2), integers."""
        users, items = pairs.unbind(-1)
        product = self.user_factors(users) * self.item_factors(items)
        x = torch.cat([self.user_inputs(users), self.item_inputs(items)], dim=-1)
        for layer, dropout in zip(self.layers, self.dropouts, strict=True):
            x = dropout(F.relu(layer(x)))
        logits: Tensor = self.join(torch.cat([product, x], dim=-1)).squeeze(-1)
        return logits


def build_neumf(data: Data) -> nn.Module:
    """A new model for the users and items of `data`: 2,091,201 parameters for ml-latest-small."""
    assert isinstance(data.train_x, Tensor) and isinstance(data.test_x, Tensor)
    pairs = torch.cat([data.train_x, data.test_x.flatten(0, 1)])
    users, items = (int(column.max()) + 1 for column in pairs.unbind(1))
    return NeuMF(users, items)


@read_once
def load_movielens(folder: Path | None, download: bool) -> Data:
    """The ratings of the first data set present: ml-20m, ml-1m or ml-latest-small.

    Args:
        folder: holds `ml-20m/ratings.csv`, `ml-1m/ratings.dat` or `ml-latest-small/ratings.csv`,
            plain or as .gz; None means `$FEDSIM_DATA`.
        download: not used: MovieLens may not be passed on without its licence.

    Raises:
        DataError: no such file is there, or the file is damaged.
    """
    return recommend.load_ratings("ncf", folder)


def hits(outputs: Tensor, targets: Tensor) -> Tensor:
    """In how many rows of logits (B, items) the first is among the ten highest: an int64 scalar.

    Equal logits count as higher than the first, so that a model whose logits are all equal has no
    hit.

    Example:
        >>> scores = torch.zeros(2, 100)
        >>> scores[0, 0] = 1.0
        >>> hits(scores, torch.zeros(2, 100))
        tensor(1)
    """
    ahead = (~(outputs[:, 1:] < outputs[:, :1])).sum(dim=1)
    return (ahead < TOP).sum()


NCF = Task(
    **about("ncf"),
    build=build_neumf,
    from_data=True,
    load=load_movielens,
    optimizer=partial(Adam, lr=0.0045, betas=(0.25, 0.5), eps=1e-8),
    loss=F.binary_cross_entropy_with_logits,
    metric=hits,
    metric_name="hit_rate",
    batch_size=200_000,  # with four negatives each, the 10^6 of the paper
    iterations=750,  # 30 epochs of ml-20m on four clients
    evaluation_batch=250,
    channels_last=False,
)

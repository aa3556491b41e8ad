"""What a model keeps that no other client's training has changed goes through."""

from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from fedsim import RunConfig
from fedsim.federation import isolation

NUMBERS = count()


class Numbered(nn.Linear):
    """A number that no other model has, and a table that grows with the first batch."""

    def __init__(self) -> None:
        super().__init__(6, 3)
        self.number, self.table = next(NUMBERS), dict[int, Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        ones = self.table.setdefault(x.shape[1], torch.ones(x.shape[1]))
        return super().forward(x * ones)


def test_what_differs_with_the_model_or_grows_alone_goes_through(make_task: Any) -> None:
    isolation.check_isolation(
        RunConfig.of(task=make_task(build=Numbered).name, method="raw", temporal=3)
    )

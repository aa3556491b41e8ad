"""Parts as a user would write them, and an update for them."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import ALL, CATALOGUE, Row, SentTensor
from compressors.parts import Symbols

UPDATE = {"w": torch.tensor([[3.0, -1.0, 0.5], [0.25, -4.0, 2.0]])}


@dataclass(frozen=True)
class Halves:
    """A quantizer that writes its scale without a word about spans."""

    needs_seed: ClassVar[bool] = False
    one_sign: ClassVar[bool] = False

    def quantize(self, values: Tensor, place: Any, out: Any, seed: int) -> Symbols:
        top = float(values.abs().max()) if place.k else 0.0
        out.float32s(np.array([top]))
        return Symbols((values > 0).to(torch.uint8), 2, top)

    def read_side(self, bits: Any, place: Any) -> tuple[int, float]:
        return 2, float(bits.float32s(1)[0])

    def dequantize(self, symbols: Symbols, place: Any, seed: int) -> Tensor:
        return (2.0 * symbols.codes - 1.0) * symbols.side


@dataclass(frozen=True)
class Whole:
    """A codec of one tensor that writes everything without a word about spans."""

    needs_seed: ClassVar[bool] = False

    def write(self, x: Tensor, out: Any, seed: int) -> SentTensor:
        out.float32s(x.numpy())
        return SentTensor(x, ALL, x.shape)

    def read(self, bits: Any, template: Tensor, seed: int) -> Tensor:
        return torch.from_numpy(bits.float32s(template.numel())).view(template.shape)


@dataclass(frozen=True)
class Chosen:
    """A sparsifier that returns what it is told to."""

    what: ClassVar[Any] = None
    needs_seed: ClassVar[bool] = False
    one_sign: ClassVar[bool] = False
    unit: ClassVar[int] = 1
    nominal: ClassVar[Any] = 3

    def count(self, n: int) -> Any:
        return self.nominal

    def select(self, x: Tensor, seed: int) -> Any:
        return self.what


def named(monkeypatch: pytest.MonkeyPatch, kind: Any, made: type) -> None:
    """Gives a class a row, and so a name, for one test."""
    name = made.__name__.lower()
    monkeypatch.setitem(CATALOGUE, name, Row(name, kind, made, "A test's", "here", f"{name}(0.1)"))

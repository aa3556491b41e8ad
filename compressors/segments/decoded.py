"""An update as its message has it: the entries that travelled, and tensors for whoever asks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from compressors.segments.room import zeros


class Decoded(Mapping[str, Tensor]):
    """An update by name of which few entries travelled; its tensors are made when one is read.

    Args:
        names: of the tensors, in the order of the update.
        shapes: of the tensors.
        places: which entries travelled, in a vector of all tensors: int64 (k,), each once.
        values: the entries there: float32 (k,).

    Example:
        >>> places, values = np.array([1, 2]), np.array([3, 4], np.float32)
        >>> update = Decoded(("a", "b"), (torch.Size([2]), torch.Size([1, 2])), places, values)
        >>> update["b"], round(update.norm, 3)
        (tensor([[4., 0.]]), 5.0)
    """

    def __init__(
        self,
        names: tuple[str, ...],
        shapes: Sequence[torch.Size],
        places: np.ndarray,
        values: np.ndarray,
    ) -> None:
        self.names, self.shapes = names, shapes
        self.places, self.values_sent = torch.from_numpy(places), torch.from_numpy(values)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors: float32, zero where nothing travelled."""
        flat = zeros(sum(shape.numel() for shape in self.shapes))
        flat[self.places.numpy()] = self.values_sent.numpy()
        return split_vector(flat, self.names, self.shapes)

    @property
    def norm(self) -> float:
        """The L2 norm of the entries alone: its last digits may differ from that of ``tensors``."""
        return math.sqrt(float(self.values_sent.double().square().sum()))

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names


def split_vector(
    flat: np.ndarray, names: Sequence[str], shapes: Sequence[torch.Size]
) -> dict[str, Tensor]:
    """Tensors that look at their parts of a vector, each with a storage of its own.

    Args:
        flat: float32, the entries of all tensors.
        names: of the tensors.
        shapes: of the tensors.
    """
    tensors, start = dict[str, Tensor](), 0
    for name, shape in zip(names, shapes, strict=True):
        end = start + shape.numel()
        tensors[name] = torch.from_numpy(flat[start:end].reshape(shape))
        start = end
    return tensors

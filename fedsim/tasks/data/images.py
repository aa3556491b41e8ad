"""Images held as bytes and normalised on demand, and CIFAR's augmentation.

Bytes take a quarter of the memory of float32; normalising costs little compared to a convolution.
An augmentation draws its numbers on the host and makes the batch where the images lie, so that a
GPU can repeat the second part without the host.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from compressors.kernels.gpu.layout import send


@dataclass(frozen=True)
class Pixels:
    """uint8 images (N, C, H, W) that give float32 images, normalised by channel.

    Example:
        >>> x = Pixels(torch.full((3, 1, 2, 2), 255, dtype=torch.uint8), (0.5,), (0.25,))
        >>> len(x), x[:2].shape, float(x[0].max())
        (3, torch.Size([2, 1, 2, 2]), 2.0)
    """

    stored: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, index: Any) -> Tensor:
        return _scaled(self.stored[index], *self._constants)

    @property
    def device(self) -> torch.device:
        """The device of the images."""
        return self.stored.device

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the images take."""
        return self.stored.nbytes

    def to(self, device: torch.device) -> "Pixels":
        """The same images on a device."""
        return Pixels(self.stored.to(device), self.mean, self.std)

    @cached_property
    def _constants(self) -> tuple[Tensor, Tensor, Tensor]:
        return _constants(self.mean, self.std, self.stored.device)


def normalised(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """uint8 images (..., C, H, W) as float32: divided by 255, less ``mean``, over ``std``."""
    return _scaled(images, *_constants(mean, std, images.device))


def _constants(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """255, ``mean`` and ``std`` as tensors: a GPU divides by a number by way of its inverse."""
    shape = (len(mean), 1, 1)
    constants = torch.tensor(255.0), torch.tensor(mean).view(shape), torch.tensor(std).view(shape)
    highest, means, deviations = (x.to(device) for x in constants)
    return highest, means, deviations


def _scaled(images: Tensor, highest: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
    return images.to(torch.float32).div_(highest).sub_(means).div_(deviations)


class Augmentation(ABC):
    """A ``Data.draw`` in two parts: numbers drawn on the host, and a batch made of them.

    The second part runs where the samples lie. On a GPU clients that train together replay it.
    """

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device of the samples."""

    @abstractmethod
    def numbers(self, count: int, generator: Generator) -> Tensor:
        """The numbers of a batch, int64 (``count``, M) on the CPU; ``generator`` decides them."""

    @abstractmethod
    def batch(self, index: Tensor, numbers: Tensor) -> tuple[Any, Any]:
        """Inputs and targets of the samples ``index`` (B,), by ``numbers`` (B, M) on their device.

        It neither draws nor reads values on the host.
        """

    @abstractmethod
    def to(self, device: torch.device) -> "Augmentation":
        """The same with its samples on a device."""

    def __call__(self, index: Tensor, generator: Generator) -> tuple[Any, Any]:
        """Inputs and targets of the samples ``index`` (B,); ``generator`` decides the rest."""
        numbers = self.numbers(len(index), generator)
        return self.batch(index.to(self.device), send(numbers, self.device))


@dataclass(frozen=True)
class CropAndFlip(Augmentation):
    """Training batches as He et al. 2016, section 4.2, make them: a ``Data.draw``.

    Each image is padded by zeros (after normalising: the mean colour), cropped to its size at a
    random place and flipped left to right with probability one half.
    """

    x: Pixels
    y: Tensor
    padding: int = 4

    @property
    def device(self) -> torch.device:
        return self.x.device

    def numbers(self, count: int, generator: Generator) -> Tensor:
        return crops(count, self.padding, generator)

    def batch(self, index: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        return cropped(self.x[index], self.padding, numbers), self.y[index]

    def to(self, device: torch.device) -> "CropAndFlip":
        return CropAndFlip(self.x.to(device), self.y.to(device), self.padding)


def crops(count: int, padding: int, generator: Generator) -> Tensor:
    """First row, first column and 1 where it is mirrored, of ``count`` images: int64 (count, 3).

    Example:
        >>> crops(2, 0, Generator().manual_seed(0))[:, :2]
        tensor([[0, 0],
                [0, 0]])
    """
    top, left = torch.randint(0, 2 * padding + 1, (2, count, 1), generator=generator)
    mirrored = torch.rand((count, 1), generator=generator) < 0.5
    return torch.cat([top, left, mirrored.long()], dim=1)


def cropped(x: Tensor, padding: int, numbers: Tensor) -> Tensor:
    """Images (B, C, H, W), moved and mirrored by ``numbers`` (B, 3) of ``crops``."""
    count, channels, height, width = x.shape
    arange, place = torch.arange, x.device
    padded = F.pad(x, (padding, padding, padding, padding))
    top, left, mirrored = numbers.split(1, dim=1)
    columns = arange(width, device=place).expand(count, width)
    columns = left + torch.where(mirrored > 0, columns.flip(1), columns)
    rows = top + arange(height, device=place)
    image = arange(count, device=place).view(-1, 1, 1, 1)
    channel = arange(channels, device=place).view(1, -1, 1, 1)
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]

"""Images held as bytes and normalised on demand, and CIFAR's augmentation.

Bytes take a quarter of the memory of float32; normalising costs little compared to a convolution.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor


@dataclass(frozen=True)
class Pixels:
    """uint8 images (N, C, H, W) that give float32 images, normalised by channel.

    Args:
        stored: the images.
        mean, std: of each channel, of pixels divided by 255.

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
        return normalised(self.stored[index], self.mean, self.std)


def normalised(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """uint8 images (..., C, H, W) as float32: divided by 255, less ``mean``, over ``std``."""
    shape = (len(mean), 1, 1)
    x = images.to(torch.float32).div_(255)
    return x.sub_(torch.tensor(mean).view(shape)).div_(torch.tensor(std).view(shape))


@dataclass(frozen=True)
class CropAndFlip:
    """Training batches as He et al. 2016, section 4.2, make them: a ``Data.draw``.

    Each image is padded by zeros (after normalising: the mean colour), cropped to its size at a
    random place and flipped left to right with probability one half.

    Args:
        x: normalised images.
        y: their classes (N,).
        padding: pixels on each side.
    """

    x: Pixels
    y: Tensor
    padding: int = 4

    def __call__(self, index: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Images and classes of the samples ``index`` (B,); ``generator`` decides the rest."""
        return crop_and_flip(self.x[index], self.padding, generator), self.y[index]


def crop_and_flip(x: Tensor, padding: int, generator: Generator) -> Tensor:
    """Images (B, C, H, W), each moved by up to ``padding`` pixels and perhaps mirrored.

    Example:
        >>> x = torch.arange(4.0).view(1, 1, 2, 2)
        >>> crop_and_flip(x, 0, Generator().manual_seed(0)).shape
        torch.Size([1, 1, 2, 2])
    """
    count, channels, height, width = x.shape
    padded = F.pad(x, (padding, padding, padding, padding))
    top, left = torch.randint(0, 2 * padding + 1, (2, count, 1), generator=generator)
    mirrored = torch.rand((count, 1), generator=generator) < 0.5
    rows, columns = top + torch.arange(height), torch.arange(width).expand(count, width)
    columns = left + torch.where(mirrored, columns.flip(1), columns)
    image, channel = torch.arange(count).view(-1, 1, 1, 1), torch.arange(channels).view(1, -1, 1, 1)
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]

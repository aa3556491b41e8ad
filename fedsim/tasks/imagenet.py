"""ImageNet with torchvision's ResNet-50: image files are read when a batch needs them.

The worker that trains on a batch decodes its images, at some milliseconds per image: on a GPU, give
as many ``--workers`` as there are clients, or keep the images on a fast disk.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data, Task, correct, cross_entropy
from fedsim.tasks.data.images import normalised
from fedsim.tasks.data.memo import read_once
from fedsim.tasks.optional import torchvision
from fedsim.tasks.tasklist import about
from strategies.client_optimizers import SGD

SIZE, SHORT = 224, 256  # pixels: the model's input, and the short side of the image it is cut from
CLASSES = 1000
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_AREA, _RATIO, _TRIES = (0.08, 1.0), (3 / 4, 4 / 3), 10


@dataclass(frozen=True)
class Files:
    """Image files as inputs: ``x[index]`` decodes them, in the way of an evaluation.

    Short side to 256, the middle 224 x 224, normalised by channel (torchvision's reference).
    """

    paths: tuple[str, ...]
    size: int = SIZE
    short: int = SHORT

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Tensor:
        at = torch.as_tensor(range(len(self))[index] if isinstance(index, slice) else index)
        to = torchvision("transforms.v2.functional", "imagenet_resnet50")
        images = []
        for i in at.flatten():
            image = to.resize(self.decoded(int(i)), [self.short], antialias=True)
            image = to.center_crop(image, [self.size, self.size])
            images.append(normalised(image, _MEAN, _STD))
        return torch.stack(images)

    def decoded(self, number: int) -> Tensor:
        """File ``number`` as uint8 (3, H, W); ``DataError`` names a file that cannot be read."""
        read = torchvision("datasets.folder", "imagenet_resnet50").pil_loader
        to = torchvision("transforms.v2.functional", "imagenet_resnet50")
        try:
            image: Tensor = to.pil_to_tensor(read(self.paths[number]))
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"ImageNet: {self.paths[number]} cannot be decoded ({reason}).\n"
                "Replace it by a good copy, or remove it."
            ) from error
        return image


@dataclass(frozen=True)
class RandomCrops:
    """Training batches: a random part of each image, of random shape, perhaps mirrored.

    torchvision's ``RandomResizedCrop(224)`` and ``RandomHorizontalFlip`` (Szegedy et al. 2015),
    with all draws from one generator: a ``Data.draw``.
    """

    files: Files
    y: Tensor

    def __call__(self, index: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Images (B, 3, 224, 224) and classes of the samples ``index`` (B,)."""
        to = torchvision("transforms.v2.functional", "imagenet_resnet50")
        size, images = [self.files.size] * 2, []
        for image in (self.files.decoded(int(i)) for i in index):
            box = crop_box(image.shape[1], image.shape[2], generator)
            image = to.resized_crop(image, *box, size, antialias=True)
            mirrored = float(torch.rand((), generator=generator)) < 0.5
            images.append(normalised(image.flip(-1) if mirrored else image, _MEAN, _STD))
        return torch.stack(images), self.y[index]


def crop_box(height: int, width: int, generator: Generator) -> tuple[int, int, int, int]:
    """Top, left, height and width of a crop of 8 to 100 % of the area, 3:4 to 4:3.

    After ten shapes that do not fit, the middle of the image, as torchvision does it.

    Example:
        >>> top, left, high, wide = crop_box(100, 80, Generator().manual_seed(0))
        >>> 0 <= top <= 100 - high and 0 <= left <= 80 - wide
        True
    """
    low, high = (math.log(ratio) for ratio in _RATIO)
    for area, shape in torch.rand((_TRIES, 2), generator=generator).tolist():
        target = height * width * (_AREA[0] + area * (_AREA[1] - _AREA[0]))
        ratio = math.exp(low + shape * (high - low))
        w, h = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
        if 0 < w <= width and 0 < h <= height:
            top = int(torch.randint(0, height - h + 1, (), generator=generator))
            left = int(torch.randint(0, width - w + 1, (), generator=generator))
            return top, left, h, w
    h, w = min(height, round(width / _RATIO[0])), min(width, round(height * _RATIO[1]))
    return (height - h) // 2, (width - w) // 2, h, w


@read_once
def load_imagenet(folder: Path | None, download: bool) -> Data:
    """ImageNet, the folders ``train`` and ``val`` with a folder of images per class in each.

    Args:
        folder: holds ``train`` and ``val``, or a folder ``imagenet`` that does; None means
            ``$FEDSIM_DATA``.
        download: not used: ImageNet cannot be downloaded without an account.

    Raises:
        DataError: no folder, no images in a folder, other classes in ``val`` than in ``train``, or
            more than 1000; two lines, the second says what to do.
    """
    if folder is None:
        raise DataError(f"ImageNet: no data folder is given.\n{_where('DIR')}")
    root = folder / "imagenet" if (folder / "imagenet").is_dir() else folder
    image_folder = torchvision("datasets", "ImageNet").ImageFolder
    try:
        train, test = (image_folder(root / part) for part in ("train", "val"))
    except (OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"ImageNet: {root} ({reason}).\n{_where(str(folder))}") from error
    if train.classes != test.classes or len(train.classes) > CLASSES:
        raise DataError(
            f"ImageNet: {root} has {len(train.classes)} classes in train, {len(test.classes)} in "
            f"val.\nBoth have the same folders, {CLASSES} at most."
        )
    counts = f"{len(train)} training and {len(test)} validation images"
    source = f"ImageNet folder, {counts}, {len(train.classes)} classes"
    (x, y), (test_x, test_y) = _files(train.samples), _files(test.samples)
    return Data(x, y, test_x, test_y, source, draw=RandomCrops(x, y))


def _files(samples: Iterable[tuple[str, int]]) -> tuple[Files, Tensor]:
    paths, classes = zip(*samples, strict=True)
    return Files(tuple(paths)), torch.tensor(classes, dtype=torch.int64)


def _where(folder: str) -> str:
    return (
        f"Put train/CLASS/*.JPEG and val/CLASS/*.JPEG into {folder} or {folder}/imagenet and give "
        "--data or set $FEDSIM_DATA."
    )


def resnet50() -> nn.Module:
    """torchvision's ResNet-50, newly initialised: 25,557,032 parameters, as in SBC's Table III."""
    model: nn.Module = torchvision("models", "imagenet_resnet50").resnet50(num_classes=CLASSES)
    return model


IMAGENET_RESNET50 = Task(
    **about("imagenet_resnet50"),
    build=resnet50,
    load=load_imagenet,
    optimizer=partial(SGD, lr=0.1, momentum=0.9, weight_decay=1e-4),
    loss=cross_entropy,
    metric=correct,
    metric_name="top1",
    batch_size=32,
    iterations=700_000,
    lr_steps=((300_000, 0.1), (600_000, 0.01)),
    evaluation_batch=100,
)

"""CIFAR-10 from disk: one plain ``cifar10.npz``, or torchvision's layout."""

import hashlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data
from fedsim.tasks.data.images import CropAndFlip, Pixels
from fedsim.tasks.data.memo import read_once
from fedsim.tasks.optional import first_line, torchvision

NPZ = "cifar10.npz"
LAYOUT = "cifar-10-batches-py"
_MEAN, _STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the training pixels / 255
_PARTS = ("train_x", "train_y", "test_x", "test_y")


@read_once
def load_cifar(folder: Path | None, download: bool) -> Data:
    """CIFAR-10: 50,000 training and 10,000 test images (·, 3, 32, 32), normalised by channel.

    Training batches are cropped and flipped (``CropAndFlip``); test images are as they are.

    Args:
        folder: holds ``cifar10.npz`` (see ``fedsim.tasks.pack_cifar``) or torchvision's
            ``cifar-10-batches-py``; the former goes first. None means ``$FEDSIM_DATA``.
        download: let torchvision fetch what is not there.

    Raises:
        DataError: no folder, missing or damaged files, or a download that failed; two lines, the
            second says what to do.
    """
    if folder is None:
        raise DataError(f"CIFAR-10: no data folder is given.\n{_where('DIR')}")
    if (folder / NPZ).is_file():
        arrays, copy = read_npz(folder / NPZ)
    elif download or (folder / LAYOUT).is_dir():
        arrays, copy = read_torchvision(folder, download)
    else:
        raise DataError(f"CIFAR-10: it is not in {folder}.\n{_where(str(folder))}")
    identity = hashlib.sha256(np.ascontiguousarray(arrays["train_x"]).data).hexdigest()[:12]
    stored = (torch.from_numpy(arrays[part]).permute(0, 3, 1, 2) for part in ("train_x", "test_x"))
    train_x, test_x = (Pixels(images.contiguous(), _MEAN, _STD) for images in stored)
    train_y, test_y = (torch.from_numpy(arrays[p].astype(np.int64)) for p in ("train_y", "test_y"))
    source = f"CIFAR-10, {copy}, training images sha256 {identity}"
    return Data(train_x, train_y, test_x, test_y, source, draw=CropAndFlip(train_x, train_y))


def read_npz(path: Path) -> tuple[dict[str, NDArray[Any]], str]:
    """The arrays in ``path``, images as NHWC, and which copy they are, in words.

    Raises ``DataError`` where a part is missing, or has another type or shape.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {part: file[part] for part in _PARTS}
            copy = str(file["source"]) if "source" in file else "of unknown origin"
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise _damaged(path, str(error).strip("'\"").splitlines()[0]) from error
    for part in ("train_x", "test_x"):
        if arrays[part].ndim == 4 and arrays[part].shape[1:] == (3, 32, 32):
            arrays[part] = arrays[part].transpose(0, 2, 3, 1)
    check_arrays(path, arrays)
    return arrays, f"{path.name} ({copy})"


def read_torchvision(folder: Path, download: bool) -> tuple[dict[str, NDArray[Any]], str]:
    """The arrays of torchvision's ``CIFAR10`` below ``folder``; ``DataError`` if it has none."""
    dataset = torchvision("datasets", "CIFAR-10", f"; {NPZ} is read without it").CIFAR10
    arrays: dict[str, NDArray[Any]] = {}
    try:
        for part, train in (("train", True), ("test", False)):
            images = dataset(folder, train=train, download=download)
            arrays[f"{part}_x"], arrays[f"{part}_y"] = images.data, np.array(images.targets)
    except (OSError, RuntimeError, ValueError, KeyError, EOFError) as error:
        verb = "be downloaded into" if download else "be read from"
        problem = f"CIFAR-10: cannot {verb} {folder / LAYOUT} ({first_line(error)})"
        raise DataError(f"{problem}.\n{_where(str(folder))}") from error
    check_arrays(folder / LAYOUT, arrays)
    return arrays, f"torchvision layout, {LAYOUT}"


def check_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Raises ``DataError`` unless images are uint8 NHWC 32x32x3 with a class from 0 to 9 each."""
    for part in ("train", "test"):
        x, y = arrays[f"{part}_x"], arrays[f"{part}_y"]
        if x.dtype != np.uint8 or x.ndim != 4 or x.shape[1:] != (32, 32, 3) or not len(x):
            raise _damaged(path, f"{part}_x is {x.dtype} {x.shape}, not uint8 (N, 32, 32, 3)")
        if y.shape != x.shape[:1] or y.dtype.kind not in "iu":
            raise _damaged(path, f"{part}_y is {y.dtype} {y.shape}, not integers {x.shape[:1]}")
        if y.min() < 0 or y.max() > 9:
            raise _damaged(path, f"a label of {part}_y is {y.max()}, outside 0 to 9")


def _where(folder: str) -> str:
    return (
        f"Put {NPZ} (fedsim.tasks.pack_cifar makes it) or torchvision's {LAYOUT} into"
        f" {folder} and give --data {folder} or set $FEDSIM_DATA; --download lets torchvision fetch"
        " it."
    )


def _damaged(path: Path, cause: str) -> DataError:
    return DataError(f"CIFAR-10: {path} cannot be used: {cause}.\nReplace it by a good copy.")

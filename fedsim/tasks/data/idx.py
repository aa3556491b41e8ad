"""MNIST and its relatives from disk, in torchvision's layout.

Unpacked idx files are read by torchvision; where only the four `.gz` files are there (say, in a
folder that cannot be written), they are read directly.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.ground.errors import DataError
from fedsim.tasks.optional import torchvision

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_DAMAGED = (AssertionError, IndexError, KeyError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True)
class Images:
    """A data set as stored: uint8 images (N, 28, 28), integer labels (N,), and which copy it is."""

    train_x: NDArray[np.uint8]
    train_y: NDArray[Any]
    test_x: NDArray[np.uint8]
    test_y: NDArray[Any]
    source: str


def data_folder(folder: Path | None) -> Path | None:
    """`folder` if given, else `$FEDSIM_DATA` if set and not empty, else None."""
    if folder is not None:
        return Path(folder)
    named = os.environ.get("FEDSIM_DATA")
    return Path(named) if named else None


def read(name: str, folder: Path | None, download: bool) -> Images:
    """The data set `name` of torchvision below `folder`.

    Args:
        name: `MNIST` or `FashionMNIST`: the class of torchvision and the name of its folder.
        folder: what `--data` or `$FEDSIM_DATA` name: the files are in folder/name/raw.
        download: let torchvision fetch what is not there.

    Raises:
        DataError: no folder, missing or damaged files, torchvision missing or broken, or a
            download that failed; two lines, the second says what to do.
    """
    if folder is None:
        raise DataError(f"{name}: no data folder is given.\n{_where(name, 'DIR')}")
    raw = folder / name / "raw"
    unpacked = all((raw / file).is_file() for file in FILES)
    packed = all((raw / f"{file}.gz").is_file() for file in FILES)
    if unpacked or (download and not packed):
        images = _read_by_torchvision(name, folder, raw, download and not unpacked)
    elif packed:
        images = _read_packed(name, raw)
    else:
        raise DataError(f"{name}: its files are not in {raw}.\n{_where(name, str(folder))}")
    _check(name, raw, images)
    return images


def _where(name: str, folder: str) -> str:
    return (
        f"Put {', '.join(FILES)} (unpacked, or all four as .gz) into {folder}/{name}/raw and give"
        f" --data {folder} or set $FEDSIM_DATA={folder}; --download lets torchvision fetch them."
    )


def _read_by_torchvision(name: str, folder: Path, raw: Path, download: bool) -> Images:
    without = "; the four .gz files alone are read without it"
    dataset = getattr(torchvision("datasets", name, without), name)
    try:
        train = dataset(folder, train=True, download=download)
        test = dataset(folder, train=False, download=False)
        identity = _identity((raw / FILES[0]).read_bytes())
    except _DAMAGED as error:
        verb = "be downloaded into" if download else "be read from"
        raise DataError(
            f"{name}: cannot {verb} {raw} ({_first_line(error)}).\n{_where(name, str(folder))}"
        ) from error
    source = f"{name}, torchvision layout, unpacked idx, {identity}"
    return Images(
        train.data.numpy(), train.targets.numpy(), test.data.numpy(), test.targets.numpy(), source
    )


def _read_packed(name: str, raw: Path) -> Images:
    contents = [_unpack(name, raw / f"{file}.gz") for file in FILES]
    arrays = [
        _parse(name, raw / f"{file}.gz", content, 3 if "idx3" in file else 1)
        for file, content in zip(FILES, contents, strict=True)
    ]
    source = f"{name}, torchvision layout, gzip idx, {_identity(contents[0])}"
    return Images(arrays[0], arrays[1], arrays[2], arrays[3], source)


def _unpack(name: str, path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(name, path, _first_line(error)) from error


def _parse(name: str, path: Path, content: bytes, dimensions: int) -> NDArray[np.uint8]:
    start = 4 + 4 * dimensions
    # idx: two zero bytes, 8 for uint8, the number of dimensions; then big-endian sizes.
    if len(content) < start or content[:4] != bytes((0, 0, 8, dimensions)):
        raise _damaged(name, path, f"its header is not that of an idx{dimensions} file of bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", dimensions, offset=4))
    expected, held = int(np.prod(shape, dtype=object)), len(content) - start
    if expected != held:
        raise _damaged(name, path, f"its header promises {expected} bytes of data, it has {held}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _check(name: str, raw: Path, images: Images) -> None:
    for part, x, y in (
        ("training", images.train_x, images.train_y),
        ("test", images.test_x, images.test_y),
    ):
        if x.ndim != 3 or x.shape[1:] != (28, 28) or y.shape != x.shape[:1] or not len(x):
            raise _damaged(name, raw, f"{part} images {x.shape}, labels {y.shape}")
        if y.max() > 9:
            raise _damaged(name, raw, f"a {part} label is {y.max()}, above 9")


def _damaged(name: str, path: Path, why: str) -> DataError:
    return DataError(
        f"{name}: {path} is damaged: {why}.\n"
        f"Replace it by a good copy, or delete it and give --download."
    )


def _identity(train_images: bytes) -> str:
    return f"training images sha256 {hashlib.sha256(train_images).hexdigest()[:12]}"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

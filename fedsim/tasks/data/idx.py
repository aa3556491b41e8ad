"""MNIST and its relatives from disk, in torchvision's layout: four idx files, plain or as `.gz`.

torchvision is needed to fetch them, and for nothing else.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsim.ground.errors import DataError
from fedsim.tasks.optional import first_line, torchvision

ARRAYS = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def read_idx(name: str, folder: Path | None, download: bool) -> tuple[list[NDArray[np.uint8]], str]:
    """The `ARRAYS` of torchvision's data set `name`, uint8, and which copy it is.

    Args:
        name: `MNIST` or `FashionMNIST`: the class of torchvision and the name of its folder.
        folder: what `--data` or `$FEDSIM_DATA` name: the files are in folder/name/raw.
        download: let torchvision fetch what is not there.

    Raises:
        DataError: no folder, missing or damaged files, or a download that failed, as where
            torchvision is missing; two lines, the second says what to do.
    """
    place = "DIR" if folder is None else str(folder)
    remedy = (
        f"Put {', '.join(ARRAYS)} (unpacked, or all four as .gz) into {place}/{name}/raw and give"
        f" --data {place} or set $FEDSIM_DATA={place}; --download lets torchvision fetch them."
    )
    if folder is None:
        raise DataError(f"{name}: no data folder is given.\n{remedy}")
    raw = folder / name / "raw"

    def ending() -> str | None:
        """What follows the names of the files; None where not all are there."""
        forms = (e for e in ("", ".gz") if all((raw / f"{file}{e}").is_file() for file in ARRAYS))
        return next(forms, None)

    if ending() is None and download:
        dataset = getattr(torchvision("datasets", name, "; it fetches the files"), name)
        try:
            dataset(folder, download=True)
        except (OSError, RuntimeError, ValueError) as error:
            problem = f"{name}: cannot be downloaded into {raw} ({first_line(error)})"
            raise DataError(f"{problem}.\n{remedy}") from error
    if (end := ending()) is None:
        raise DataError(f"{name}: its files are not in {raw}.\n{remedy}")
    contents = {}
    for path in (raw / f"{file}{end}" for file in ARRAYS):
        try:
            contents[path] = gzip.decompress(path.read_bytes()) if end else path.read_bytes()
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(name, path, first_line(error)) from error
    arrays = [parsed(name, *file) for file in contents.items()]
    for part, (x, y) in (("training", arrays[:2]), ("test", arrays[2:])):
        if x.shape[1:] != (28, 28) or y.shape != x.shape[:1] or not len(x):
            raise _damaged(name, raw, f"{part} images {x.shape}, labels {y.shape}")
        if y.max() > 9:
            raise _damaged(name, raw, f"a {part} label is {y.max()}, above 9")
    digest = hashlib.sha256(next(iter(contents.values()))).hexdigest()[:12]
    form = "gzip idx" if end else "unpacked idx"
    return arrays, f"{name}, torchvision layout, {form}, training images sha256 {digest}"


def parsed(name: str, path: Path, content: bytes) -> NDArray[np.uint8]:
    """The array in the bytes of an idx file, whose dimensions the file's name says."""
    dimensions = 3 if "idx3" in path.name else 1
    start = 4 + 4 * dimensions
    # idx: two zero bytes, 8 for uint8, the number of dimensions; then big-endian sizes.
    if len(content) < start or content[:4] != bytes((0, 0, 8, dimensions)):
        raise _damaged(name, path, f"its header is not that of an idx{dimensions} file of bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", dimensions, offset=4))
    expected, actual = int(np.prod(shape, dtype=object)), len(content) - start
    if expected != actual:
        raise _damaged(name, path, f"its header promises {expected} bytes of data, it has {actual}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _damaged(name: str, path: Path, cause: str) -> DataError:
    return DataError(
        f"{name}: {path} is damaged: {cause}.\n"
        f"Replace it by a good copy, or delete it and give --download."
    )

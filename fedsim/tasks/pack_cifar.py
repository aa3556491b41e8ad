"""Packs CIFAR-10 into the one plain file that fedsim's CIFAR tasks read."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.ground.files import replacing
from fedsim.tasks.data import cifar


def pack(
    path: Path | str,
    train_x: NDArray[np.uint8],
    train_y: NDArray[Any],
    test_x: NDArray[np.uint8],
    test_y: NDArray[Any],
    source: str,
) -> None:
    """Writes ``path``, whole or not at all.

    Args:
        path: ``cifar10.npz`` in the folder that ``--data`` names.
        train_x: uint8 images (N, 32, 32, 3), red, green, blue.
        test_x: as `train_x`, held out.
        train_y: integer classes 0 to 9, (N,).
        test_y: classes of `test_x`.
        source: which copy of the data this is, in words; every result carries it.
    """
    arrays: dict[str, NDArray[Any]] = {
        "train_x": train_x,
        "train_y": train_y,
        "test_x": test_x,
        "test_y": test_y,
    }
    cifar.check_arrays(Path(path), arrays)
    with replacing(path) as file:
        np.savez(  # uncompressed: photographs do not compress
            file, train_x=train_x, train_y=train_y, test_x=test_x, test_y=test_y, source=source
        )

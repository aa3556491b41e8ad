"""Packs a folder with CIFAR-10 into the one plain file that fedsim's CIFAR tasks read.

    PYTHONPATH=. python docs/make_cifar.py SOURCE DIR/cifar10.npz

SOURCE holds torchvision's ``cifar-10-batches-py``; or lossless strips ``train_000.webp``, ...,
``test_000.webp``, ... (RGB, 32 pixels wide, images one below the other) and ``labels.npz``
(``train_labels``, ``test_labels``), which need Pillow.
"""

import argparse
import sys
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from fedsim.ground.errors import DataError, UsageError
from fedsim.tasks.data import cifar
from fedsim.tasks.optional import first_line, optional
from fedsim.tasks.pack_cifar import pack


def read_source(source: Path) -> tuple[dict[str, NDArray[Any]], str]:
    """The arrays of a source folder and its description; ``DataError`` for another folder."""
    if (source / cifar.LAYOUT).is_dir():
        return cifar.read_torchvision(source, download=False)
    if not (source / "train_000.webp").is_file() or not (source / "labels.npz").is_file():
        raise DataError(
            f"{source} holds neither {cifar.LAYOUT} nor train_000.webp, ... with labels.npz.\n"
            "Give a folder that does, or call fedsim.tasks.pack_cifar.pack with the arrays."
        )
    pictures = optional("PIL.Image", f"{source}", "pip install pillow")
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with np.load(source / "labels.npz", allow_pickle=False) as labels:
            for part in ("train", "test"):
                strips = []
                for path in sorted(source.glob(f"{part}_*.webp")):
                    with pictures.open(path) as image:
                        strips.append(np.asarray(image.convert("RGB")).reshape(-1, 32, 32, 3))
                arrays[f"{part}_x"] = np.concatenate(strips)
                arrays[f"{part}_y"] = labels[f"{part}_labels"]
            inexact = sum(len(labels[k]) for k in labels if k.startswith("approx_"))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise DataError(
            f"{source}: its strips or labels.npz cannot be used ({first_line(error)}).\nIt holds "
            "train_000.webp, ..., test_000.webp, ... and labels.npz with train_labels, test_labels."
        ) from error
    form = f"lossless WebP strips, {inexact} images not exact" if inexact else "WebP strips"
    return arrays, form


def pack_command(arguments: list[str] | None = None) -> int:
    """The command; 2 where the source cannot be used."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", type=Path, help="a folder with CIFAR-10 in one of its forms")
    parser.add_argument("path", type=Path, help="the file to write, DIR/cifar10.npz")
    flags = parser.parse_args(arguments)
    try:
        arrays, form = read_source(flags.source)
        pack(flags.path, **arrays, source=form)
    except (DataError, UsageError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    counts = f"{len(arrays['train_x'])} training and {len(arrays['test_x'])} test images"
    print(f"{flags.path}: {counts}, {form}")
    return 0


if __name__ == "__main__":
    sys.exit(pack_command())

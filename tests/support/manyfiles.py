"""A run on a folder of images that would not fit: `python -m tests.support.manyfiles 100000`.

Prints how many files there are, how many MiB their tensors would take, and by how many MiB the
peak of the process's memory is above that of a run on 100 files. With `--memory`, all are read
first.
"""

import resource
import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import Dataset

from fedsim import RunConfig, run
from fedsim.tasks import from_torch

SIDE = 128
"""Pixels of a sample; those of a file are 4."""


class Files(Dataset[tuple[Tensor, int]]):
    """Image files as float32 (3, 128, 128); every second one is light."""

    def __init__(self, place: Path, count: int) -> None:
        self.place, self.count = place, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = Image.open(path_of(self.place, index)).convert("RGB").resize((SIDE, SIDE))
        pixels = torch.from_numpy(np.array(image, np.float32))
        return pixels.permute(2, 0, 1) / 255, index % 2


def path_of(place: Path, index: int) -> Path:
    """A file in one of a hundred folders."""
    return place / f"{index % 100:02}" / f"{index:06}.png"


def make(place: Path, count: int) -> None:
    """So many files of 4 x 4 pixels."""
    draw, contents = np.random.default_rng(0), []
    for i in range(200):
        pixels = draw.integers(0, 128, (4, 4, 3), dtype=np.uint8) + np.uint8(128 * (i % 2))
        made = BytesIO()
        Image.fromarray(pixels).save(made, "PNG")
        contents.append(made.getvalue())
    for i in range(min(100, count)):
        path_of(place, i).parent.mkdir(parents=True)
    for i in range(count):
        path_of(place, i).write_bytes(contents[i % 200])


def model() -> nn.Module:
    """A small CNN."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 2)
    )


def peak() -> float:
    """MiB that this process has had in memory at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(count: int, lazy: bool = True) -> tuple[float, float]:
    """MiB of all samples, and MiB by which a run's peak is above that of a run on 100 files.

    ``RuntimeError`` where the run has learnt nothing.
    """
    carry_out(100, lazy)  # libraries are loaded, kernels compiled
    before = peak()
    if (accuracy := carry_out(count, lazy)) <= 0.5:
        raise RuntimeError(f"accuracy {accuracy}")
    return count * 3 * SIDE**2 * 4 / 2**20, peak() - before


def carry_out(count: int, lazy: bool) -> float:
    """The accuracy of a run on so many files."""
    with TemporaryDirectory() as folder:
        make(Path(folder), count)

        def dataset() -> Files:
            return Files(Path(folder), count)

        task = from_torch(
            dataset, 0.1, model, name="many", lazy=lazy, batch_size=16, evaluation_batch=50
        )
        config = RunConfig.of(
            task=task,
            method="sbc(0.01)",
            temporal=5,
            iterations=20,
            clients=10,
            evaluate_every=2,
            test_samples=500,
        )
        return float(run(config, Path(folder, "out"), progress=False).summary["metric"])


if __name__ == "__main__":
    files = int(sys.argv[1])
    held, grown = measure(files, lazy="--memory" not in sys.argv)
    print(f"{files} files, {held:.0f} MiB, grown by {grown:.0f} MiB")

"""An experiment's module, as the command line loads it, and data on which it starts anywhere."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.tasks.chars import TEST_CHARACTERS
from fedsim.tasks.pack_cifar import pack


def experiment(name: str, part: str = "run") -> Any:
    """A module of an experiment, its ``run.py`` if no other is named."""
    return import_module(f"experiments.{name}.{part}")


def made_up(folder: Path) -> Path:
    """A data folder with a few images as CIFAR-10 and a line again and again as Shakespeare."""
    (folder / "shakespeare").mkdir(parents=True)
    line = "The quick brown fox jumps over the lazy dog.\n"
    text = line * (2 * TEST_CHARACTERS // len(line))
    (folder / "shakespeare" / "shakespeare_complete.txt").write_text(text)
    images = np.random.default_rng(0).integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    classes = np.arange(60) % 10
    parts = (images[:40], classes[:40], images[40:], classes[40:])
    pack(folder / "cifar10.npz", *parts, source="made up")
    return folder

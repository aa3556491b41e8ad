"""An experiment's module, as the command line loads it, and data on which it starts anywhere."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.tasks.chars import HELD_OUT
from fedsim.tasks.pack_cifar import pack
from tests.support.markdown import ROOT


def experiment(name: str) -> Any:
    """The ``run.py`` of an experiment; its dataclasses look it up among the loaded modules."""
    spec = spec_from_file_location(name.replace("-", "_"), ROOT / "experiments" / name / "run.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made_up(folder: Path) -> Path:
    """A data folder with a few images as CIFAR-10 and a line again and again as Shakespeare."""
    (folder / "shakespeare").mkdir(parents=True)
    line = "The quick brown fox jumps over the lazy dog.\n"
    text = line * (2 * HELD_OUT // len(line))
    (folder / "shakespeare" / "shakespeare_complete.txt").write_text(text)
    images = np.random.default_rng(0).integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    classes = np.arange(60) % 10
    parts = (images[:40], classes[:40], images[40:], classes[40:])
    pack(folder / "cifar10.npz", *parts, source="made up")
    return folder

"""`digits`: scikit-learn's 8x8 handwritten digits and a small CNN, ready without any download."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data, Task, correct, cross_entropy
from fedsim.tasks.data.once import Once
from fedsim.tasks.tasklist import about

HELD_OUT = 360  # of 1797 samples, 20 %
_ORDER = Path(__file__).with_name("digits_order.json")
"""Training samples, then the held-out samples, as scikit-learn's train_test_split gives them
(stratified, random_state 0). They are written down so that every run is judged on the same samples,
whatever scikit-learn's version. JSON, because Flower packs no other kind of data into an app."""
_MEAN, _STD = 0.3053, 0.3760  # of all pixels divided by 16


def build() -> nn.Module:
    """A new CNN for 8x8 images: (B, 1, 8, 8) -> logits (B, 10); 21,386 parameters, no buffers.

    Two 3x3 convolutions of 32 and 64 channels, each followed by max-pooling and ReLU, and one
    linear layer. Weights are PyTorch's default, drawn from torch's global generator.
    """
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.MaxPool2d(2),  # before ReLU: the same function, a quarter of the work
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10),
    )


def load(folder: Path | None = None, download: bool = False) -> Data:
    """The digits: 1437 training and 360 held-out images (·, 1, 8, 8), the classes alike in both.

    Args:
        folder: not used, the data comes with scikit-learn.
        download: not used.

    Raises:
        DataError: scikit-learn is not installed, or comes without the digits.
    """
    return _load()


@Once
def _load() -> Data:
    table = np.loadtxt(_table(), delimiter=",", dtype=np.float32)
    x, y = _tensors(table[:, :-1].reshape(-1, 8, 8), table[:, -1])
    order = np.array(json.loads(_ORDER.read_text()), np.int64)
    train, test = order[:-HELD_OUT], order[-HELD_OUT:]
    source = f"scikit-learn {version('scikit-learn')}, embedded 8x8 digits"
    return Data(x[train], y[train], x[test], y[test], source)


def _table() -> Path:
    """Where scikit-learn keeps the digits; importing it would take longer than reading them."""
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise DataError(
            "task digits: its data comes with scikit-learn, which is not installed.\n"
            "Install it: pip install scikit-learn"
        )
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if not path.is_file():
        raise DataError(f"task digits: scikit-learn has no {path.name} at {path.parent}")
    return path


def _tensors(images: np.ndarray, target: np.ndarray) -> tuple[Tensor, Tensor]:
    x = torch.from_numpy(images.astype(np.float32))[:, None] / 16
    return (x - _MEAN) / _STD, torch.from_numpy(target.astype(np.int64))


def optimizer(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """SGD with learning rate 0.02 and momentum 0.9."""
    return SGD(parameters, lr=0.02, momentum=0.9)


DIGITS = Task(
    **about("digits"),
    build=build,
    load=load,
    optimizer=optimizer,
    loss=cross_entropy,
    metric=correct,
    batch_size=32,
    iterations=1200,
)

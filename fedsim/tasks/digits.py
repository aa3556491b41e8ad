"""`digits`: scikit-learn's 8x8 handwritten digits and a small CNN, ready without any download."""

from __future__ import annotations

import json
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data, Task, correct, cross_entropy
from fedsim.tasks.data.memo import read_once
from fedsim.tasks.tasklist import about
from strategies.client_optimizers import SGD

HELD_OUT = 360  # of 1797 samples, 20 %
_ORDER = Path(__file__).with_name("digits_order.json")
"""Training samples, then the held-out samples, as scikit-learn's train_test_split gives them
(stratified, random_state 0). They are written down so that every run is judged on the same samples
with any version of scikit-learn. JSON, because Flower packs no other kind of data into an app."""
_MEAN, _STD = 0.3053, 0.3760  # of all pixels divided by 16


def build_digits_cnn() -> nn.Module:
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


@read_once
def load_digits(folder: Path | None, download: bool) -> Data:
    """The digits: 1437 training and 360 held-out images (·, 1, 8, 8), with equal shares of the
    classes in both.
    """
    spec = find_spec("sklearn")  # importing it would take longer than reading the digits
    if spec is None or spec.origin is None:
        raise DataError(
            "task digits: its data comes with scikit-learn, which is not installed.\n"
            "Install it: pip install scikit-learn"
        )
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if not path.is_file():
        raise DataError(f"task digits: scikit-learn has no {path.name} at {path.parent}")
    table = torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.float32))
    x, y = (table[:, :-1].reshape(-1, 1, 8, 8) / 16 - _MEAN) / _STD, table[:, -1].long()
    order = np.array(json.loads(_ORDER.read_text()), np.int64)
    train, test = order[:-HELD_OUT], order[-HELD_OUT:]
    source = f"scikit-learn {version('scikit-learn')}, embedded 8x8 digits"
    return Data(x[train], y[train], x[test], y[test], source)


DIGITS = Task(
    **about("digits"),
    build=build_digits_cnn,
    load=load_digits,
    optimizer=partial(SGD, lr=0.02, momentum=0.9),
    loss=cross_entropy,
    metric=correct,
    batch_size=32,
    iterations=1200,
)

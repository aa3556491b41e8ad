"""`digits`: scikit-learn's 8x8 handwritten digits and a small CNN, ready without any download."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from fedsim.errors import DataError
from fedsim.tasks.base import Data, Task, correct, cross_entropy

HELD_OUT = 360  # of 1797 samples, 20 %
_SPLIT_SEED = 0  # fixed: every run, whatever its seed, is judged on the same samples
_MEAN, _STD = 0.3053, 0.3760  # of all pixels divided by 16
_LOCK = Lock()


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
        DataError: scikit-learn is not installed.
    """
    with _LOCK:
        return _load()


@lru_cache(maxsize=1)
def _load() -> Data:
    try:
        import sklearn
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        raise DataError(
            f"task digits: its data comes with scikit-learn, which cannot be imported ({error}).\n"
            f"Install it: pip install scikit-learn"
        ) from error
    digits = load_digits()
    train, test = train_test_split(
        np.arange(len(digits.target)),
        test_size=HELD_OUT,
        stratify=digits.target,
        random_state=_SPLIT_SEED,
    )
    x, y = _tensors(digits.images, digits.target)
    source = f"scikit-learn {sklearn.__version__}, embedded 8x8 digits"
    return Data(x[train], y[train], x[test], y[test], source)


def _tensors(images: np.ndarray, target: np.ndarray) -> tuple[Tensor, Tensor]:
    x = torch.from_numpy(images.astype(np.float32))[:, None] / 16
    return (x - _MEAN) / _STD, torch.from_numpy(target.astype(np.int64))


def optimizer(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """SGD with learning rate 0.02 and momentum 0.9."""
    return SGD(parameters, lr=0.02, momentum=0.9)


DIGITS = Task(
    name="digits",
    title="scikit-learn's 8x8 digits, a small CNN (21,386 parameters)",
    source="this project: a task that needs no download; settings chosen on seeds 0 to 14",
    build=build,
    load=load,
    optimizer=optimizer,
    loss=cross_entropy,
    metric=correct,
    batch_size=32,
    iterations=1200,
)

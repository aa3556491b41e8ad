"""The twin's task: linear least squares, as a ``fedsim.Task`` in torch and by hand in numpy.

A model is a flat vector in float64: the eight weights, then the bias.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD

from fedsim import TASKS, Data, Task

TENSORS = (8, 1)  # entries of the weight and of the bias
NAMES = ("weight", "bias")
TRAINED, HELD_OUT = 40, 12
LR, MOMENTUM, BATCH = 0.05, 0.0, 3
STEP = (8, 0.1)  # the second task's learning rate: a tenth from iteration 8 on
ITERATIONS = 16


def _data() -> Data:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(TRAINED + HELD_OUT, TENSORS[0], generator=generator)
    true = torch.randn(TENSORS[0], 1, generator=generator)
    noise = 0.1 * torch.randn(TRAINED + HELD_OUT, 1, generator=generator)
    y = x @ true + 0.3 + noise
    return Data(x[:TRAINED], y[:TRAINED], x[TRAINED:], y[TRAINED:], "made up")


def _squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().sum()


def task(name: str, lr_steps: tuple[tuple[int, float], ...]) -> Task:
    """The task in torch, for fedsim."""
    fields: dict[str, Any] = {
        "build": lambda: nn.Linear(TENSORS[0], 1),
        "load": lambda folder, download: _data(),
        "optimizer": lambda parameters: SGD(parameters, lr=LR, momentum=MOMENTUM),
        "loss": nn.functional.mse_loss,
        "metric": _squares,
        "metric_name": "squared error",
        "higher_is_better": False,
        "batch_size": BATCH,
        "iterations": ITERATIONS,
        "channels_last": False,
        "clients": 4,
        "lr_steps": lr_steps,
    }
    return Task(name=name, **fields)


PLAIN = TASKS.setdefault("twin", task("twin", ()))
STEPPED = TASKS.setdefault("twin_stepped", task("twin_stepped", (STEP,)))


def rate(stepped: bool, iteration: int) -> float:
    """The factor on the learning rate in an iteration of the run."""
    return STEP[1] if stepped and iteration >= STEP[0] else 1.0


def loss(model: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """The mean squared error."""
    return float(np.mean((x @ model[:-1] + model[-1] - y[:, 0]) ** 2))


def gradient(model: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The gradient of the mean squared error."""
    off = x @ model[:-1] + model[-1] - y[:, 0]
    return np.append(2 * off @ x / len(x), 2 * off.mean())

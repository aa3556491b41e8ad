"""The global model on held-out data, at the server, at no cost in bits."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from compressors import Tensors, derive
from compressors.kernels.gpu.layout import send
from fedsim.federation.room import enough
from fedsim.federation.trainer import Trainer


@dataclass(frozen=True)
class Score:
    """The task's metric, as it is reported, and mean loss on the held-out samples."""

    metric: float
    loss: float


def evaluate(trainer: Trainer, weights: Tensors) -> Score:
    """Scores ``weights`` with the model of ``trainer`` (whose parameters change).

    What a model draws while it is scored is the same every time.
    """
    with enough(trainer.device), trainer.products():
        return trainer.watch.call(partial(_evaluate, trainer, weights))


def _evaluate(trainer: Trainer, weights: Tensors, alone: bool) -> Score:
    with trainer.watch.turn(derive(trainer.config.seed, "evaluate"), alone):
        return _score(trainer, weights)


@torch.no_grad()
def _score(trainer: Trainer, weights: Tensors) -> Score:
    data, task, weights = trainer.data, trainer.task, trainer.filled(weights)
    for name, p in trainer.parameters.items():
        p.copy_(weights[name])
    trainer.model.eval()
    score = loss = 0.0
    chosen = spread(len(data.test_x), trainer.config.evaluation.test_samples)
    if isinstance(data.test_x, Tensor):  # the numbers go there once, and nothing waits for them
        chosen = send(chosen, data.test_x.device)
    for index in chosen.split(task.evaluation_batch):
        x, y = data.test_x[index].to(trainer.device), data.test_y[index].to(trainer.device)
        if x.dim() == 4:
            x = x.contiguous(memory_format=trainer.layout)
        outputs = trainer.model(x)
        score += float(task.metric(outputs, y))
        loss += float(task.loss(outputs, y)) * len(x)
    return Score(task.reported(score / len(chosen)), loss / len(chosen))


def spread(total: int, count: int | None) -> Tensor:
    """``count`` of the numbers below ``total``, evenly spread (None: all of them), int64.

    Held-out samples may be in the order of their classes; the first ones would not do.

    Example:
        >>> spread(10, 4).tolist(), spread(3, None).tolist()
        ([0, 2, 5, 7], [0, 1, 2])
    """
    count = min(count or total, total)
    return torch.arange(count) * total // count

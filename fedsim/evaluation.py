"""The global model on held-out data, at the server, at no cost in bits."""

from dataclasses import dataclass

import torch

from compressors import Tensors
from fedsim.trainer import Trainer

BATCH = 500


@dataclass(frozen=True)
class Score:
    """The task's metric and mean loss on the held-out samples."""

    metric: float
    loss: float


@torch.no_grad()
def evaluate(trainer: Trainer, weights: Tensors) -> Score:
    """Scores ``weights`` with the model of ``trainer`` (whose parameters change)."""
    data, task = trainer.federation.data, trainer.task
    for name, p in trainer.parameters.items():
        p.copy_(weights[name])
    trainer.model.eval()
    score = loss = 0.0
    for start in range(0, len(data.test_x), BATCH):
        x, y = data.test_x[start : start + BATCH], data.test_y[start : start + BATCH]
        x, y = x.to(trainer.device), y.to(trainer.device)
        if x.dim() == 4:
            x = x.contiguous(memory_format=trainer.layout)
        outputs = trainer.model(x)
        score += float(task.metric(outputs, y))
        loss += float(task.loss(outputs, y)) * len(x)
    return Score(score / len(data.test_x), loss / len(data.test_x))

"""The global model on held-out data, at the server, at no cost in bits."""

from dataclasses import dataclass

import torch

from compressors import Tensors
from fedsim.trainer import Trainer

@dataclass(frozen=True)
class Score:
    """The task's metric, as it is reported, and mean loss on the held-out samples."""

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
    batches = zip(*(part.split(task.evaluation_batch) for part in (data.test_x, data.test_y)),
                  strict=True)  # fmt: skip
    for x, y in batches:
        x, y = x.to(trainer.device), y.to(trainer.device)
        if x.dim() == 4:
            x = x.contiguous(memory_format=trainer.layout)
        outputs = trainer.model(x)
        score += float(task.metric(outputs, y))
        loss += float(task.loss(outputs, y)) * len(x)
    return Score(task.reported(score / len(data.test_x)), loss / len(data.test_x))

"""The global model on held-out data, at the server, at no cost in bits."""

from dataclasses import dataclass

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
    data, task, device = trainer.data, trainer.task, trainer.device
    chosen = spread(len(data.test_x), trainer.config.evaluation.test_samples)
    if isinstance(data.test_x, Tensor):  # the numbers go there once, and nothing waits for them
        chosen = send(chosen, data.test_x.device)

    def scored(alone: bool) -> Score:
        seed = derive(trainer.config.seed, "evaluate")
        with trainer.watch.turn(seed, alone), torch.no_grad():
            every = trainer.filled(weights)
            for name, p in trainer.parameters.items():
                p.copy_(every[name])
            trainer.model.eval()
            score = loss = 0.0
            for index in chosen.split(task.evaluation_batch):
                x, y = data.test_x[index].to(device), data.test_y[index].to(device)
                if x.dim() == 4:
                    x = x.contiguous(memory_format=trainer.layout)
                outputs = trainer.model(x)
                score += float(task.metric(outputs, y))
                loss += float(task.loss(outputs, y)) * len(x)
            return Score(task.reported(score / len(chosen)), loss / len(chosen))

    with enough(device), trainer.products():
        return trainer.watch.call(scored)


def spread(total: int, count: int | None) -> Tensor:
    """``count`` of the numbers below ``total``, evenly spread (None: all of them), int64.

    Held-out samples may be in the order of their classes; the first ones would not do.

    Example:
        >>> spread(10, 4).tolist(), spread(3, None).tolist()
        ([0, 2, 5, 7], [0, 1, 2])
    """
    count = min(count or total, total)
    return torch.arange(count) * total // count

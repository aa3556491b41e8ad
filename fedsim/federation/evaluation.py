"""The global model on held-out data, at the server, at no cost in bits."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, pstdev
from typing import Any

import torch
from torch import Tensor

from compressors import Tensors, derive
from compressors.kernels.gpu.layout import send
from fedsim.federation.room import enough
from fedsim.federation.trainer import Trainer
from fedsim.settings.fields import CLIENT_SCORES, SCORE
from fedsim.tasks.base import Samples

CLIENTS = 200
"""How many clients are scored by themselves at most; of more, so many evenly spread ones."""


@dataclass(frozen=True)
class Score:
    """The task's metric, as it is reported, and mean loss on the held-out samples.

    ``more``: further columns of a round: the task's other scores, and those of ``over_clients``
    where clients are scored by themselves.
    """

    metric: float
    loss: float
    more: dict[str, float] = field(default_factory=dict)


def evaluate(trainer: Trainer, weights: Tensors) -> Score:
    """Scores ``weights`` with the model of ``trainer`` (whose parameters change).

    What a model draws while it is scored is the same every time.
    """
    data = trainer.data
    chosen = spread(len(data.test_x), trainer.config.evaluation.test_samples)
    kept = trainer.federation.kept_out

    def scored(alone: bool) -> Score:
        seed = derive(trainer.config.seed, "evaluate")
        with trainer.watch.turn(seed, alone), torch.no_grad():
            every = trainer.filled(weights)
            for name, p in trainer.parameters.items():
                p.copy_(every[name])
            trainer.model.eval()
            found = _score(trainer, data.test_x, data.test_y, chosen)
            if kept is None:
                return found
            parts = [torch.from_numpy(kept[int(i)]) for i in spread(len(kept), CLIENTS)]
            metrics = [
                _score(trainer, data.train_x, data.train_y, part).metric
                for part in parts if len(part)
            ]  # fmt: skip
            columns = over_clients(metrics, trainer.task.higher_is_better)
            return replace(found, more=found.more | columns)

    with enough(trainer.device), trainer.products():
        return trainer.watch.call(scored)


def _score(trainer: Trainer, x: Samples, y: Tensor, chosen: Tensor) -> Score:
    """What the trainer's model comes to on some samples."""
    task, device, count = trainer.task, trainer.device, len(chosen)
    if isinstance(x, Tensor):  # the numbers go there once, and nothing waits for them
        chosen = send(chosen, x.device)
    sums, loss = dict[str, Any](), 0.0
    for index in chosen.split(task.evaluation_batch):
        inputs, targets = send(x[index], device), send(y[index], device)
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=trainer.layout)
        outputs = trainer.model(inputs)
        for name, of_batch in task.sums(outputs, targets).items():
            sums[name] = sums.get(name, 0.0) + of_batch
        loss += float(task.loss(outputs, targets)) * len(inputs)
    (_, metric), *others = task.scores(sums, count).items()
    return Score(metric, loss / count, {f"{SCORE}{name}": value for name, value in others})


def over_clients(metrics: Sequence[float], higher_is_better: bool) -> dict[str, float]:
    """What the metrics of single clients come to: every client counts once.

    Args:
        metrics: of each client that was scored; of none, all is NaN.
        higher_is_better: which way the metric improves.

    Returns:
        The mean; the mean of the worst tenth, one client at least; the standard deviation.

    Example:
        >>> over_clients([0.5, 1.0], True)
        {'client_metric_mean': 0.75, 'client_metric_worst': 0.5, 'client_metric_spread': 0.25}
    """
    if not metrics:
        return dict.fromkeys(CLIENT_SCORES, float("nan"))
    worst = sorted(metrics, reverse=not higher_is_better)[: max(1, len(metrics) // 10)]
    values = fmean(metrics), fmean(worst), pstdev(metrics)
    return dict(zip(CLIENT_SCORES, values, strict=True))


def spread(total: int, count: int | None) -> Tensor:
    """``count`` of the numbers below ``total``, evenly spread (None: all of them), int64.

    Held-out samples may be in the order of their classes; the first ones would not do.

    Example:
        >>> spread(10, 4).tolist(), spread(3, None).tolist()
        ([0, 2, 5, 7], [0, 1, 2])
    """
    count = min(count or total, total)
    return torch.arange(count) * total // count

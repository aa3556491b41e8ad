"""The arm that rescales momentum: SGD that keeps 1 - p of it at the end of a round.

``experiments.masking.rescaled:digits_n5_p0_01`` is `digits` for n = 5 and p = 0.01, a task for each
n and p of the grid.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import nn
from torch.optim import SGD

from experiments.common.models import CHAR_TRANSFORMER_NEW
from fedsim.tasks import Task, get_task

DELAYS, FRACTIONS = (1, 5, 25, 100), (0.001, 0.01, 0.1, 0.5)
CHARS = replace(CHAR_TRANSFORMER_NEW, name="chars", optimizer=partial(SGD, lr=0.01, momentum=0.9))
TASKS = {"digits": get_task("digits"), "mnist_2nn": get_task("mnist_2nn"), "chars": CHARS}


class RescaledSGD(SGD):
    """SGD whose momentum m becomes (1 - p) m after each n-th step.

    Args:
        params: to optimize.
        lr: the learning rate.
        momentum: beta.
        n: local iterations of a round.
        p: the fraction of entries that a round sends; masking forgets the momentum of these.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, momentum: float, n: int, p: float
    ) -> None:
        super().__init__(params, lr=lr, momentum=momentum)
        self._n, self._p = n, p
        self.register_step_post_hook(self._rescale)

    def _rescale(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """What torch calls after a step: the last one of a round rescales the momentum."""
        for state in self.state.values():
            step = state.setdefault("step", torch.zeros(()))
            step += 1
            if int(step) % self._n == 0:
                state["momentum_buffer"] *= 1 - self._p


def name_of(task: str, n: int, p: float) -> str:
    """The name of a task of this file.

    Example:
        >>> name_of("digits", 5, 0.01)
        'digits_n5_p0_01'
    """
    return f"{task}_n{n}_p{p:g}".replace(".", "_")


def rescaled(task: str, n: int, p: float) -> Task:
    """A task with ``RescaledSGD`` as its optimizer."""
    optimizer: Any = partial(RescaledSGD, lr=0.02, momentum=0.9, n=n, p=p)
    return replace(TASKS[task], name=name_of(task, n, p), optimizer=optimizer)


for _task, _n, _p in product(TASKS, DELAYS, FRACTIONS):
    globals()[name_of(_task, _n, _p)] = rescaled(_task, _n, _p)

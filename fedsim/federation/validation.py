"""A validation part of the training data: kept out of training, scored in place of the held-out."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsim.ground.errors import UsageError
from fedsim.tasks import Data, Task
from fedsim.tasks.base import Samples
from fedsim.tasks.data.items import drawn_alike
from fedsim.tasks.data.lazy import Lazy
from fedsim.tasks.pytrees import Tree, map_leaves, named_leaves, take

_SEED = 0  # the same part for every seed of a run, so that seeds are scored on the same samples


class Chosen:
    """Some of the samples of inputs that may not fit into memory: ``Samples`` by their numbers.

    Args:
        inputs: all of them (N, ...).
        numbers: (N,) int64, which.
    """

    def __init__(self, inputs: Samples, numbers: Tensor) -> None:
        self.inputs, self.numbers = inputs, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any, /) -> Tensor:
        return self.inputs[self.numbers[index]]


def check_shapes(task: Task, data: Data, setting: str) -> None:
    """Refuses a task that scores other samples than it trains on: they cannot be scored instead."""
    first = torch.zeros(1, dtype=torch.int64)
    lazy = data.train_x
    padded = isinstance(lazy, Lazy) and lazy.collate is not None  # each batch to its own length
    with drawn_alike():
        trained, scored = (
            tuple(_shapes(part, padded) for part in read(first))
            for read in (data.read_train, data.read_test)
        )
    if trained != scored:
        raise UsageError(
            f"{setting}: task {task.name} scores samples of another shape ({scored[0]}) than it "
            f"trains on ({trained[0]}), so training samples cannot be scored instead"
        )


def split_validation(task: Task, data: Data, fraction: float) -> tuple[Data, np.ndarray]:
    """The data with a validation part in place of the held-out part, and who may be trained on.

    The part follows from the number of training samples and ``fraction`` alone.

    Args:
        task: whose data it is, for messages.
        data: the whole data set.
        fraction: of the training samples, in (0, 1).

    Returns:
        The data, whose ``test_x`` and ``test_y`` are the validation part; (N,) int64 numbers of the
        training samples that are left, ascending.

    Raises:
        UsageError: no sample is left on one side, or training and held-out samples have different
            shapes, so that the task cannot score the former.
    """
    check_shapes(task, data, f"--validation is {fraction:g}")
    total = data.train_count
    count = round(fraction * total)
    if not 0 < count < total:
        raise UsageError(
            f"--validation is {fraction:g}: it takes {count} of {total} training samples; "
            "both parts need at least one"
        )
    order = np.random.default_rng([_SEED, total]).permutation(total)
    held_out, left = np.sort(order[:count]), np.sort(order[count:])
    numbers = torch.from_numpy(held_out)
    if isinstance(data.train_x, Lazy):
        return replace(data, test_x=data.train_x.part(numbers), test_y=None), left
    part = map_leaves(lambda x: Chosen(x, numbers), data.train_x)
    return replace(data, test_x=part, test_y=take(data.train_y, numbers)), left


def _shapes(tree: Tree, padded: bool) -> Any:
    """The shapes of a batch of one sample, a tuple each; of padded ones the number of axes."""
    shapes = {path: tuple(x.shape) for path, x in named_leaves(tree) if isinstance(x, Tensor)}
    if padded:
        return {path: len(shape) for path, shape in shapes.items()}
    return shapes[""] if [*shapes] == [""] else shapes

"""Samples that a map-style data set reads when a batch needs them: they need not fit in memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors.usercode import typed
from fedsim.ground.errors import DataError
from fedsim.ground.threads import lock_of_process
from fedsim.tasks.data.items import (
    Columns,
    MapStyle,
    arrays_drawn_alike,
    as_tree,
    divide,
    drawn_alike,
    map_parts,
)
from fedsim.tasks.pytrees import Tree, map_leaves, named_leaves, stack

Collate = Callable[[list[Any]], Any]
"""(samples of a batch) -> the batch: a tuple whose last entry is the targets, or named columns."""

_SPREAD = 64
"""Of how many samples, evenly spread, a data set's digest is."""

_GENERATOR_LOCK = lock_of_process()  # Python's and numpy's generators are the process's


class Lazy:
    """Samples by their numbers; a batch is read when it is asked for, and nothing is kept.

    The step that reads a batch seeds a random transform's draws from torch's generator
    (``fedsim.federation.draws``); ``seed`` seeds those from Python's and numpy's.

    Args:
        task: the name that messages begin with.
        dataset: map-style; its samples are what ``divide`` takes.
        columns: those of a row, as far as they are known.
        collate: makes a batch of samples, such as a padded one; None: inputs are made tensors and
            stacked, images in bytes as numbers from 0 to 1.
        numbers: which samples of ``dataset`` (N,) int64; None: all.

    Example:
        >>> lazy = Lazy("mine", [([0.5], 1), ([1.5], 0)])
        >>> lazy.batch(torch.tensor([1, 0]))
        (tensor([[1.5000],
                [0.5000]]), tensor([0, 1]))
    """

    def __init__(
        self,
        task: str,
        dataset: MapStyle,
        columns: Columns = Columns(),  # noqa: B008 - frozen
        collate: Collate | None = None,
        numbers: Tensor | None = None,
    ) -> None:
        self.task, self.dataset, self.columns = task, dataset, columns
        self.collate, self.numbers = collate, numbers
        self._draws = False

    def __len__(self) -> int:
        return len(self.dataset) if self.numbers is None else len(self.numbers)

    def part(self, numbers: Tensor) -> Lazy:
        """The samples ``numbers`` (M,) of these."""
        of_dataset = numbers if self.numbers is None else self.numbers[numbers]
        return Lazy(self.task, self.dataset, self.columns, self.collate, of_dataset)

    def batch(self, index: Tensor, seed: int = 0) -> tuple[Tree, Tree]:
        """Inputs and targets of the samples ``index`` (B,), in that order.

        Raises:
            DataError: the data set raises, or a sample or a batch is not what ``divide`` takes.
        """
        if not self._draws:
            plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002
            pair = self._batch(index)
            if random.getstate() == plain and _same(np.random.get_state(), arrays):  # noqa: NPY002
                return pair
            self._draws = True  # or another thread did: then it is slower, and not wrong
            random.setstate(plain)
            np.random.set_state(arrays)  # noqa: NPY002
        with _GENERATOR_LOCK, arrays_drawn_alike(seed):
            return self._batch(index)

    def digest_arrays(self) -> list[str | np.ndarray]:
        """Values that say which data these are: their number, and evenly spread samples."""
        total = len(self)
        count = min(_SPREAD, total)
        arrays: list[str | np.ndarray] = [f"{count} of {total}"]
        with drawn_alike():
            for i in range(count):
                pair = self._batch(torch.tensor([i * total // count]))
                for path, x in named_leaves(pair):
                    arrays += [path, x.numpy()] if isinstance(x, Tensor) else []
        return arrays

    def _batch(self, index: Tensor) -> tuple[Tree, Tree]:
        places = (index if self.numbers is None else self.numbers[index.cpu()]).tolist()
        samples = [self._sample(i) for i in places]
        if self.collate is not None:
            batch = self.collate(samples)
            if not isinstance(batch, Mapping | tuple | list) or len(batch) < 2:
                raise DataError(
                    f"task {self.task}: collate returned {type(batch).__name__}; it returns a tuple"
                    " (inputs, targets) or a dict of named columns"
                )
            x, y, _ = divide(self.task, places[0], batch, self.columns)
            return x, y
        named = self.columns
        inputs, targets = [], []
        for i, sample in zip(places, samples, strict=True):
            x, y, named = divide(self.task, i, sample, named)
            inputs.append(as_tree(self.task, i, x))
            targets.append(target_tree(self.task, i, y))
        return map_leaves(_unit, self._stacked(inputs, places)), self._stacked(targets, places)

    def _sample(self, i: int) -> Any:
        try:
            return self.dataset[i]
        except Exception as error:  # a user's data set may raise any
            raise DataError(
                f"task {self.task}: sample {i} cannot be read ({typed(error)})"
            ) from error

    def _stacked(self, trees: Sequence[Tree], places: Iterable[int]) -> Tree:
        try:
            return stack(trees)
        except (ValueError, RuntimeError) as error:
            raise DataError(
                f"task {self.task}: samples {', '.join(map(str, places))} make no batch ({error}); "
                "give the data set a transform that makes them alike, or a DataLoader whose "
                "collate_fn does"
            ) from error


def target_tree(task: str, i: int, y: Any) -> Tree:
    """A target as int64 or float32 tensors; a dict, and a tuple that is more than numbers, are
    several.

    Example:
        >>> target_tree("mine", 0, 3), target_tree("mine", 0, {"box": [0.5, 1.0]})
        (tensor(3), {'box': tensor([0.5000, 1.0000])})
    """
    return map_parts(lambda part, _: _target(task, i, part), y)


def _target(task: str, i: int, y: Any) -> Tensor:
    try:
        tensor = torch.as_tensor(y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"task {task}: the target of sample {i} is {y!r:.40}; where samples are read when a "
            "batch needs them, a target is a number, or an array of numbers (words are not "
            "numbered: nobody has read them all)"
        ) from error
    return tensor.to(torch.float32 if tensor.is_floating_point() else torch.int64)


def _unit(x: Tensor) -> Tensor:
    """Images in bytes as float32 numbers from 0 to 1; others as they are."""
    return x.to(torch.float32).div_(255) if x.dtype == torch.uint8 else x


def _same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))

"""``Data`` whose samples stay where they are until a batch needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from fedsim.ground.errors import UsageError
from fedsim.tasks.base import Data
from fedsim.tasks.data import samples
from fedsim.tasks.data.items import Columns, Inputs, MapStyle
from fedsim.tasks.data.lazy import Collate, Lazy
from fedsim.tasks.pytrees import Tree

Augment = Callable[[Tree, Generator], Tree]
Groups = str | Sequence[Any] | np.ndarray | Callable[[Any], Sequence[Any]] | None
"""A column, a number or a word per training sample, or a function of the data set giving these."""


class Source(NamedTuple):
    """A map-style data set.

    Attributes:
        dataset: the samples.
        collate: makes a batch of some; None: they are stacked.
        lazy: whether it came as a ``DataLoader``, which reads when a batch needs samples.
    """

    dataset: MapStyle
    collate: Collate | None = None
    lazy: bool = False


def lazy_data(
    train: MapStyle | DataLoader[Any],
    test: MapStyle | DataLoader[Any] | float,
    source: str,
    *,
    name: str,
    inputs: Inputs = None,
    label: str | None = None,
    labels: Sequence[Any] | None = None,
    augment: Augment | None = None,
) -> Data:
    """What a task's `load` returns where samples need not fit in memory.

    Samples are as in `fedsim.tasks.from_torch`. Each is read when a batch needs it. Images in bytes
    become numbers from 0 to 1.

    Args:
        train: training samples: a map-style data set, or a `DataLoader`, of which the data set and
            `collate_fn` are used. Which samples a batch has follows from the run.
        test: held-out samples, in the same forms; or the fraction of `train` that is held out,
            with the same draw in every run.
        source: which copy of the data this is, in words.
        name: of the task; messages begin with it.
        inputs: the column of the inputs, or several, where samples are rows; None: all that are
            left.
        label: the column of the targets; None: "label", else "labels".
        labels: what partitions go by, a number or a word per sample of `train`.
        augment: (inputs of a training batch, generator) -> those that are trained on.

    Raises:
        UsageError: a `DataLoader` draws samples in a way of its own, or a data set has no numbers
            of samples.
        DataError: `test` leaves a side empty, or there is not one label per sample.

    Example:
        >>> rows = [{"input_ids": [i, 1], "attention_mask": [1, 1], "label": 0} for i in range(8)]
        >>> data = lazy_data(rows, 0.25, "made up", name="mine")
        >>> x, y = data.read_test(torch.tensor([0]))
        >>> sorted(x), x["input_ids"].shape, data.train_count
        (['attention_mask', 'input_ids'], torch.Size([1, 2]), 6)
    """
    first = open_source(name, "train", train)
    second = test if isinstance(test, int | float) else open_source(name, "test", test)
    return read_lazily(name, first, second, source, Columns(inputs, label), labels, augment)


def open_source(task: str, role: str, source: Any) -> Source:
    """The data set that is given, made, or in a ``DataLoader``.

    Raises:
        UsageError: a ``DataLoader`` has a sampler of its own, or a data set no numbers of samples.
    """
    data = source if is_data(source) else source()
    if not isinstance(data, DataLoader):
        return Source(data)
    if isinstance(data.dataset, IterableDataset):
        raise UsageError(
            f"task {task}: {role} is a DataLoader of {type(data.dataset).__name__}, whose samples "
            "have no numbers; give a map-style data set (len(it) and it[i])"
        )
    sampler = data.sampler
    plain = type(sampler) is SequentialSampler or (
        type(sampler) is RandomSampler and not sampler.replacement
    )
    if not plain or type(data.batch_sampler) is not BatchSampler:
        odd = data.batch_sampler if plain else sampler
        raise UsageError(
            f"task {task}: {role} is a DataLoader with sampler {type(odd).__name__}; which samples "
            "a batch has follows from --seed, --batch-size and --partition: give one with "
            "shuffle=True or shuffle=False, and a batch_size"
        )
    is_custom = data.collate_fn is not default_collate
    dataset: Any = data.dataset  # which torch gives no __len__
    return Source(dataset, data.collate_fn if is_custom else None, True)


def is_data(value: Any) -> bool:
    """Whether samples can be asked for: not of a function, or a class, that makes a data set.

    Example:
        >>> is_data([([0.5], 1)]), is_data(list)
        (True, False)
    """
    if isinstance(value, type):
        return False
    return isinstance(value, DataLoader) or hasattr(value, "__getitem__")


def read_sources(
    task: str,
    train: Source,
    test: Source | float,
    what: str,
    classes: bool,
    named: Columns,
    groups: Groups,
    augment: Augment | None,
    lazy: bool,
) -> Data:
    """The ``Data`` of two data sets, or of one and the fraction of it that is held out.

    In memory, unless ``lazy`` or a ``DataLoader`` among them says otherwise.
    """
    if lazy or train.lazy or (isinstance(test, Source) and test.lazy):
        return read_lazily(task, train, test, what, named, groups, augment)
    column = groups if isinstance(groups, str) else None
    first = samples.read_samples(task, train.dataset, named, column)
    if (members := members_of(task, train.dataset, groups)) is not None:
        first = first._replace(groups=members)
    if isinstance(test, Source):
        second = samples.read_samples(task, test.dataset, first.columns, column)
    else:
        first, second = samples.held_out(task, first, test)
    return samples.data(task, what, first, second, classes, augment)


def read_lazily(
    task: str,
    train: Source,
    test: Source | float,
    source: str,
    named: Columns,
    groups: Groups,
    augment: Augment | None,
) -> Data:
    """The ``Data`` of two data sets, or of one and the fraction of it that is held out.

    Raises as ``lazy_data`` does, and ``UsageError`` where ``groups`` is a column.
    """
    if isinstance(groups, str):
        raise UsageError(
            f"task {task}: groups is {groups!r}, and samples are read when a batch needs them; "
            "give one number or word per training sample, or a function of the data set: "
            f"lambda rows: rows[{groups!r}]"
        )
    first = Lazy(task, train.dataset, named, train.collate)
    members = members_of(task, train.dataset, groups)
    if isinstance(test, Source):
        second = Lazy(task, test.dataset, named, test.collate)
    else:
        train_numbers, test_numbers = (
            torch.from_numpy(x) for x in samples.held_out_numbers(task, len(first), test)
        )
        first, second = first.part(train_numbers), first.part(test_numbers)
        members = None if members is None else members[train_numbers.numpy()]
    counts = f"{len(first):,} and {len(second):,} samples"
    draw = None if augment is None else samples.Augmented(first, None, augment)
    labels = None if members is None else samples.group_numbers(members)
    text = f"{source}, {counts}, read when a batch needs them"
    return Data(first, None, second, None, text, labels, draw)


def members_of(task: str, dataset: MapStyle, groups: Groups) -> np.ndarray | None:
    """What a partition goes by (N,), numbers or words; None where it is not known."""
    if groups is None or isinstance(groups, str):
        return None
    values = groups(dataset) if callable(groups) else groups
    return samples.numbered(values, len(dataset), task)

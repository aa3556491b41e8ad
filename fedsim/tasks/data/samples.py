"""Users' data (datasets of torch and of Hugging Face, tables) as tensors in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data, read_pair
from fedsim.tasks.data.images import Pixels
from fedsim.tasks.data.items import Columns, MapStyle, as_tree, divide, drawn_alike, map_parts
from fedsim.tasks.data.lazy import Lazy
from fedsim.tasks.pytrees import (
    Tree,
    count_samples,
    leaves,
    map_leaves,
    named_leaves,
    shapes_text,
    take,
)

HELD_OUT_SEED = 0  # of the rows that a fraction holds out: the same for every run


class SampleSet(NamedTuple):
    """Samples as they were read.

    Attributes:
        x: inputs (N, ...): uint8 where they are images in bytes, else float32 or int64.
        y: targets (N, ...), numbers, or words (N,).
        groups: what a partition may go by (N,), numbers or words; None: the targets.
        columns: which of a row's were the inputs and the targets; of None: samples are not rows.
    """

    x: Tree
    y: Tree
    groups: np.ndarray | None = None
    columns: Columns = Columns()

    def rows(self, index: np.ndarray) -> SampleSet:
        """The samples ``index``."""
        groups = None if self.groups is None else self.groups[index]
        return SampleSet(take(self.x, torch.from_numpy(index)), take(self.y, index), groups)


@dataclass(frozen=True)
class Augmented:
    """Training batches whose inputs ``augment`` has changed: a ``Data.draw``."""

    x: Tree
    y: Tree
    augment: Callable[[Tree, Generator], Tree]

    def __call__(self, index: Tensor, generator: Generator) -> tuple[Tree, Tree]:
        """Inputs and targets of the samples ``index`` (B,)."""
        x, y = read_pair(self.x, self.y, index, generator.initial_seed())
        return self.augment(x, generator), y


def read_samples(task: str, dataset: MapStyle, named: Columns, groups: str | None) -> SampleSet:
    """Every sample of ``dataset``, in order.

    Raises:
        DataError: a sample is something else, or samples are of several shapes or types.
    """
    xs: Tree = None
    first = ""
    ys: list[Any] = []
    members: list[Any] = []
    with drawn_alike():
        for i in range(len(dataset)):
            sample = dataset[i]
            inputs, y, named = divide(task, i, sample, named, groups)
            x = as_tree(task, i, inputs)
            if groups is not None:
                members.append(sample[groups])
            if not ys:
                first = shapes_text(x)
                xs = map_leaves(lambda t: torch.empty((len(dataset), *t.shape), dtype=t.dtype), x)
            ys.append(map_parts(_value, y))
            if (shapes := shapes_text(x)) != first:
                raise DataError(
                    f"task {task}: the input of sample {i} is {shapes} and that of sample 0 {first}"
                    "; give the data set a transform that makes them alike (images: Resize, "
                    "CenterCrop; sequences: padding), or a DataLoader whose collate_fn does"
                )
            for block, part in zip(leaves(xs), leaves(x), strict=True):
                block[i] = part  # now: a data set may return the same tensor again
    if not ys:
        raise DataError(f"task {task}: the data set has no samples; it has one or more")
    try:
        y = map_leaves(lambda *of_leaf: np.array([x.value for x in of_leaf]), *ys)
    except ValueError as error:
        raise DataError(f"task {task}: targets are of several lengths ({error})") from error
    return SampleSet(xs, y, np.array(members) if members else None, named)


@dataclass(frozen=True)
class _Value:
    """A value that is not a tree: a number, a word, or a list of numbers."""

    value: Any


def _value(y: Any, _: str) -> _Value:
    return _Value(y.tolist() if isinstance(y, Tensor | np.ndarray) else y)


def check_classes(task: str, train: MapStyle, test: MapStyle) -> None:
    """Refuses two folders of images whose classes have other numbers: each numbers its own."""
    classes, test_classes = (getattr(d, "class_to_idx", None) for d in (train, test))
    if classes is not None and test_classes is not None and classes != test_classes:
        raise DataError(
            f"task {task}: train numbers its classes {classes} and test {test_classes}; both need "
            "a folder for every class"
        )


def held_out(task: str, part: SampleSet, share: float) -> tuple[SampleSet, SampleSet]:
    """``part`` without a fraction ``share`` of its samples, and these; the same in every run."""
    train_numbers, test_numbers = held_out_numbers(task, count_samples(part.x), share)
    return part.rows(train_numbers), part.rows(test_numbers)


def held_out_numbers(task: str, total: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the samples that are left, and of the fraction that is held out, ascending.

    Raises ``DataError`` where a side would be empty.
    """
    count = round(share * total)
    if not 0 < count < total:
        raise DataError(
            f"task {task}: test is {share!r}, {count} of {total} samples; it leaves one or "
            "more on both sides"
        )
    order = np.random.default_rng(HELD_OUT_SEED).permutation(total)
    return np.sort(order[count:]), np.sort(order[:count])


def data(
    task: str,
    what: str,
    train: SampleSet,
    test: SampleSet,
    classes: bool,
    augment: Callable[[Tree, Generator], Tree] | None = None,
    read: Sequence[SampleSet] = (),
) -> Data:
    """The ``Data`` of two parts.

    Args:
        task: the name that messages begin with.
        what: which data these are, in words.
        train: the part to train on. Images in bytes stay bytes and are normalised by the mean and
            deviation of each channel over the training images when a batch is made.
        test: the held-out part; images as those of `train`.
        classes: whether targets are classes: words are numbered in their order, from 0.
        augment: (inputs of a training batch, generator) -> those that are trained on.
        read: the parts as they were read, of which these were computed; else these are.

    Raises:
        DataError: inputs or targets of the parts are unlike, or targets are not classes.
    """
    train_shapes, test_shapes = (shapes_text(take(p.x, 0)) for p in (train, test))
    if train_shapes != test_shapes:
        raise DataError(
            f"task {task}: an input of train is {train_shapes} and of test {test_shapes}"
        )
    if classes and not isinstance(train.y, np.ndarray):
        raise DataError(
            f"task {task}: a target is {type(train.y).__name__} of several; classes are one number "
            "or word each (for other targets give loss= and metric=)"
        )
    x = map_leaves(_inputs, train.x)
    x_test = map_leaves(
        lambda train_leaf, test_leaf: (
            Pixels(test_leaf, train_leaf.mean, train_leaf.std)
            if isinstance(train_leaf, Pixels)
            else test_leaf
        ),
        x,
        test.x,
    )
    try:
        map_leaves(partial(_check_targets, task), train.y, test.y)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"task {task}: targets of train and test differ ({error})") from error
    y, y_test = (
        map_leaves(partial(_targets, task, classes), one, other)
        for one, other in ((train.y, test.y), (test.y, train.y))
    )
    hasher = hashlib.sha256()
    for tree in (train.x, y, test.x, y_test):
        for path, leaf in named_leaves(tree):
            hasher.update(path.encode())
            _add(hasher, leaf.numpy())
    digest = hasher.hexdigest()[:12]
    counts = f"{count_samples(y):,} and {count_samples(y_test):,} samples"
    source = f"{what}, {counts}, all of them sha256 {digest}"
    draw = None if augment is None else Augmented(x, y, augment)
    labels = None if train.groups is None else group_numbers(train.groups)
    return Data(x, y, x_test, y_test, source, labels, draw, parts_digest(read or (train, test)))


def group_numbers(groups: np.ndarray) -> Tensor:
    """Groups (N,), numbers or words, as their places among the different ones, int64.

    Example:
        >>> group_numbers(np.array(["b", "a", "b"]))
        tensor([1, 0, 1])
    """
    return torch.from_numpy(np.unique(groups, return_inverse=True)[1].reshape(-1))


def parts_digest(parts: Iterable[SampleSet]) -> str:
    """The digest of samples as they were read: what is computed of them differs by machine.

    Example:
        >>> part = SampleSet(torch.ones(2, 3), np.array(["a", "b"]))
        >>> parts_digest([part]) == parts_digest([part._replace(y=np.array(["a", "c"]))])
        False
    """
    return _digest(
        x
        for part in parts
        for tree in (part.x, part.y, part.groups)
        if tree is not None
        for path, leaf in named_leaves(tree)
        for x in (path, np.asarray(leaf))
    )


def shards_digest(shards: Sequence[Any]) -> str:
    """The digest of the sample numbers of each client.

    Example:
        >>> shards_digest([[0, 1], [2]]) == shards_digest([[0], [1, 2]])
        False
    """
    numbers: Iterable[np.ndarray] = (np.atleast_1d(part) for part in shards)
    return _digest(numbers).replace("samples", "shards")


def in_memory(data: Data) -> bool:
    """Whether no inputs are read when a batch needs them."""
    inputs = (leaf for tree in (data.train_x, data.test_x) for leaf in leaves(tree))
    return all(isinstance(x, Tensor | Pixels) for x in inputs)


def memory_digest(data: Data) -> str:
    """The digest of a data set as it lies in memory; of ``Lazy`` ones, of some samples.

    Other inputs that are read when a batch needs them are left out.

    Example:
        >>> x, y = torch.ones(2, 3), torch.zeros(2)
        >>> memory_digest(Data(x, y, x, y, "a")) == memory_digest(Data(x, y + 1, x, y, "a"))
        False
    """
    arrays: list[str | np.ndarray] = []
    scales: list[str | np.ndarray] = []
    for tree in (data.train_x, data.test_x, data.train_y, data.test_y, data.labels):
        for path, leaf in named_leaves(tree):
            if isinstance(leaf, Pixels):
                arrays += [path, leaf.stored.numpy()]
                scales += [path, np.array([leaf.mean, leaf.std])]
            elif isinstance(leaf, Lazy):
                arrays += leaf.digest_arrays()
            elif isinstance(leaf, Tensor):
                arrays += [path, _array(leaf)]
    return _digest([*arrays, *scales])


def _array(x: Tensor) -> np.ndarray:
    x_cpu = x.detach().cpu()
    array: np.ndarray = (x_cpu.view(torch.int16) if x.dtype == torch.bfloat16 else x_cpu).numpy()
    return array


def _digest(arrays: Iterable[np.ndarray | str | None]) -> str:
    """The digest of arrays, and of texts that say where they are."""
    hasher = hashlib.blake2b(digest_size=8)
    for values in arrays:
        if isinstance(values, str):
            hasher.update(values.encode())
        elif values is not None:
            hasher.update(f"{values.dtype} {values.shape}".encode())
            _add(hasher, values)
    return f"samples {hasher.hexdigest()}"


_PIECE = 2**24
"""Bytes of which a digest copies at most so many at a time, where they do not lie in order."""


def _add(hasher: Any, values: np.ndarray) -> None:
    """Adds the values of an array (N, ...), row by row, to a digest."""
    if values.dtype == object:
        hasher.update(repr(values.tolist()).encode())
        return
    rows = max(1, _PIECE * len(values) // max(1, values.nbytes))
    for start in range(0, len(values), rows):
        hasher.update(np.ascontiguousarray(values[start : start + rows]).reshape(-1).view(np.uint8))


def _inputs(x: Tensor) -> Tensor | Pixels:
    if x.dtype != torch.uint8 or x.dim() != 4:
        return x
    total = np.zeros((2, x.shape[1]))
    for images in x.split(1000):  # a quarter of the memory that all as float32 would take
        pixels = images.double().div_(255).transpose(0, 1).flatten(1)
        total += torch.stack([pixels.sum(1), pixels.square().sum(1)]).numpy()
    mean, square = total / (x.numel() / x.shape[1])
    variance = square - mean**2
    std = np.sqrt(np.where(variance > 1e-12, variance, 1))  # a channel that never changes is zero
    return Pixels(x, tuple(mean.tolist()), tuple(std.tolist()))


def _check_targets(task: str, train: np.ndarray, test: np.ndarray) -> None:
    """Refuses targets of two parts that are of other shapes, or words in one of them alone."""
    if train.shape[1:] != test.shape[1:]:
        first, second = (str(y.shape[1:]) for y in (train, test))
        raise DataError(
            f"task {task}: a target of train has the shape {first} and of test {second}"
        )
    if (train.dtype.kind in "US") != (test.dtype.kind in "US"):
        first, second = (
            f"{'words' if y.dtype.kind in 'US' else 'numbers'}, such as {y.flat[0].item()!r}"
            for y in (train, test)
        )
        raise DataError(
            f"task {task}: targets of train are {first}, and those of test {second}; give both "
            "alike"
        )


def _targets(task: str, classes: bool, y: np.ndarray, others: np.ndarray) -> Tensor:
    """Targets of a part; words are numbered in the order of those of both parts."""
    names = np.unique(np.concatenate([y, others]))
    if y.dtype.kind in "US" and y.ndim == 1:
        return torch.from_numpy(np.searchsorted(names, y).astype(np.int64))
    if y.dtype.kind in "biu":
        if classes and names[0] < 0:
            raise DataError(f"task {task}: a target is {names[0]}; classes are numbered from 0")
        return torch.from_numpy(y.astype(np.int64))
    if y.dtype.kind == "f" and not classes:
        return torch.from_numpy(y.astype(np.float32))
    example = names.flat[0].item() if y.dtype.kind == "f" else y.flat[0]
    raise DataError(
        f"task {task}: a target is {example!r}; classes are whole numbers from 0, or words (for "
        "targets that are no classes give loss= and metric=)"
    )


def numbered(values: Sequence[Any] | np.ndarray | Tensor, count: int, task: str) -> np.ndarray:
    """What partitions go by, given one by one: (N,) of numbers or words.

    Raises ``DataError`` unless there is one per training sample.
    """
    groups = np.asarray(values)
    if groups.shape != (count,):
        raise DataError(
            f"task {task}: groups has the shape {groups.shape}; it is a column's name, or one "
            f"number or word for each of the {count} training samples"
        )
    return groups

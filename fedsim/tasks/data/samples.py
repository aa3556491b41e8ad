"""What people keep data in (datasets of torch and of Hugging Face, tables) as tensors in memory."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Generator, Tensor

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data, Samples
from fedsim.tasks.data.images import Pixels

HELD_OUT_SEED = 0  # of the rows that a fraction holds out: the same for every run


class MapStyle(Protocol):
    """A map-style data set: ``len(it)`` samples, of which ``it[i]`` is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Part(NamedTuple):
    """Samples as they were read.

    Attributes:
        x: inputs (N, ...): uint8 where they are images in bytes, else float32 or int64.
        y: targets (N, ...), numbers, or words (N,).
        groups: what a partition may go by (N,), numbers or words; None: the targets.
        columns: which of a row's were the inputs and the targets; None: samples are no rows.
    """

    x: Tensor
    y: np.ndarray
    groups: np.ndarray | None = None
    columns: tuple[str | None, str | None] = None, None

    def rows(self, index: np.ndarray) -> Part:
        """The samples ``index``."""
        groups = None if self.groups is None else self.groups[index]
        return Part(self.x[torch.from_numpy(index)], self.y[index], groups)


@dataclass(frozen=True)
class Augmented:
    """Training batches whose inputs ``augment`` has changed: a ``Data.draw``."""

    x: Samples
    y: Tensor
    augment: Callable[[Tensor, Generator], Tensor]

    def __call__(self, index: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the samples ``index`` (B,)."""
        return self.augment(self.x[index], generator), self.y[index]


def read(
    task: str, dataset: MapStyle, inputs: str | None, label: str | None, groups: str | None
) -> Part:
    """Every sample of ``dataset``, in order.

    Args:
        task: the name that messages begin with.
        dataset: its samples are pairs (input, target), or rows with named columns.
        inputs, label, groups: the columns of a row; None: found as ``columns`` does; no groups.

    Raises:
        DataError: a sample is something else, or samples are of several shapes or types.
    """
    xs = torch.empty(0)
    ys: list[Any] = []
    members: list[Any] = []
    with drawn_alike():
        for i in range(len(dataset)):
            sample = dataset[i]
            if isinstance(sample, Mapping):
                inputs, label = columns(task, sample, inputs, label, groups)
                x, y = sample[inputs], sample[label]
                if groups is not None:
                    members.append(sample[groups])
            elif isinstance(sample, tuple | list) and len(sample) == 2:
                x, y = sample
                if groups is not None:
                    raise DataError(
                        f"task {task}: groups is {groups!r}, and the samples are pairs without "
                        "named columns; give one number per training sample in their place"
                    )
            else:
                raise DataError(
                    f"task {task}: sample {i} is of type {type(sample).__name__}; a sample is a "
                    "pair (input, target) or a row of named columns"
                )
            x = as_tensor(task, i, x)
            if not ys:
                xs = torch.empty((len(dataset), *x.shape), dtype=x.dtype)
            ys.append(y.tolist() if isinstance(y, Tensor | np.ndarray) else y)
            if (x.shape, x.dtype) != (xs.shape[1:], xs.dtype):
                here, first = (f"{t.dtype} {tuple(t.shape)}" for t in (x, xs[0]))
                raise DataError(
                    f"task {task}: the input of sample {i} is {here} and that of sample 0 {first}; "
                    "give the data set a transform that makes them alike (images: Resize, "
                    "CenterCrop)"
                )
            xs[i] = x  # now: a data set may return the same tensor again, with other numbers
    if not ys:
        raise DataError(f"task {task}: the data set has no samples; it has one or more")
    try:
        return Part(xs, np.array(ys), np.array(members) if members else None, (inputs, label))
    except ValueError as error:
        raise DataError(f"task {task}: targets are of several lengths ({error})") from error


def columns(
    task: str, row: Mapping[str, Any], inputs: str | None, label: str | None, groups: str | None
) -> tuple[str, str]:
    """The names of the columns that hold inputs and targets: as given, else the only ones.

    Example:
        >>> columns("mine", {"image": 0, "label": 1}, None, None, None)
        ('image', 'label')
    """
    label = "label" if label is None else label
    if inputs is None:
        left = [name for name in row if name not in (label, groups)]
        if label in row and len(left) != 1:
            raise DataError(
                f"task {task}: inputs is not given, and beside {label!r} there are the columns "
                f"{', '.join(left) or 'none'}; name one: inputs={(left or ['image'])[0]!r}"
            )
        inputs = left[0] if left else "image"
    for setting, name in (("label", label), ("inputs", inputs), ("groups", groups)):
        if name is not None and name not in row:
            raise DataError(
                f"task {task}: {setting} is {name!r}; the columns are {', '.join(row)}"
            )
    return inputs, label


def check_classes(task: str, train: MapStyle, test: MapStyle) -> None:
    """Refuses two folders of images whose classes have other numbers: each numbers its own.

    Raises:
        DataError: both data sets have ``class_to_idx``, as torchvision's have, and they differ.
    """
    here, there = (getattr(d, "class_to_idx", None) for d in (train, test))
    if here is not None and there is not None and here != there:
        raise DataError(
            f"task {task}: train numbers its classes {here} and test {there}; both need a folder "
            "for every class"
        )


def as_tensor(task: str, i: int, x: Any) -> Tensor:
    """One input as a tensor: an image in bytes (C, H, W), float32 numbers, or int64 symbols.

    Example:
        >>> as_tensor("mine", 0, np.zeros((2, 2, 3), np.uint8)).shape  # height, width, colour
        torch.Size([3, 2, 2])
        >>> as_tensor("mine", 0, [0.5, 1.0]).dtype
        torch.float32
    """
    if hasattr(x, "getbands"):  # PIL
        if x.mode[0] in "IF":  # "I;16" too
            raise DataError(
                f"task {task}: the input of sample {i} is an image of mode {x.mode}, whose numbers "
                "are no bytes; give the data set a transform that makes an array of it: "
                "lambda image: np.array(image, np.float32)[None] / 65535"
            )
        x = np.array(x if x.mode in ("L", "RGB") else x.convert("RGB"))
    if isinstance(x, np.ndarray) and x.dtype == np.uint8 and x.ndim in (2, 3):
        x = torch.from_numpy(x if x.ndim == 2 else x.transpose(2, 0, 1).copy())
    try:
        made = torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError) as error:
        shown = f"{x[:20]!r}..." if isinstance(x, str) else f"a {type(x).__name__}"
        raise DataError(
            f"task {task}: the input of sample {i} is {shown}; it is an image, an array or numbers"
            " (give the data set a transform that makes one)"
        ) from error
    if made.dtype == torch.uint8 and made.dim() in (2, 3):
        return made[None] if made.dim() == 2 else made
    whole = not made.is_floating_point() and made.dtype not in (torch.bool, torch.uint8)
    return made.to(torch.int64 if whole else torch.float32)


def held_out(task: str, part: Part, share: float) -> tuple[Part, Part]:
    """``part`` without a fraction ``share`` of its samples, and these; drawn alike in every run."""
    count = round(share * len(part.x))
    if not 0 < count < len(part.x):
        raise DataError(
            f"task {task}: test is {share!r}, {count} of {len(part.x)} samples; it leaves one or "
            "more on both sides"
        )
    order = np.random.default_rng(HELD_OUT_SEED).permutation(len(part.x))
    return part.rows(np.sort(order[count:])), part.rows(np.sort(order[:count]))


def data(
    task: str, what: str, train: Part, test: Part, classes: bool,
    augment: Callable[[Tensor, Generator], Tensor] | None = None, read: Sequence[Part] = (),
) -> Data:  # fmt: skip
    """The ``Data`` of two parts.

    Args:
        task: the name that messages begin with.
        what: which data these are, in words.
        train, test: the parts. Images in bytes stay bytes and are normalised by the mean and
            deviation of each channel over the training images when a batch is made.
        classes: whether targets are classes: words are numbered in their order, from 0.
        augment: (inputs of a training batch, generator) -> those that are trained on.
        read: the parts as they were read, of which these were computed; else these are.

    Raises:
        DataError: inputs or targets of the parts are unlike, or targets are not classes.
    """
    if train.x.shape[1:] != test.x.shape[1:] or train.x.dtype != test.x.dtype:
        here, there = (f"{p.x.dtype} {tuple(p.x.shape[1:])}" for p in (train, test))
        raise DataError(f"task {task}: an input of train is {here} and of test {there}")
    if train.y.shape[1:] != test.y.shape[1:]:
        here, there = (str(p.y.shape[1:]) for p in (train, test))
        raise DataError(f"task {task}: a target of train has the shape {here} and of test {there}")
    if (train.y.dtype.kind in "US") != (test.y.dtype.kind in "US"):
        here, there = (
            f"{'words' if p.y.dtype.kind in 'US' else 'numbers'}, such as {p.y.flat[0].item()!r}"
            for p in (train, test)
        )
        raise DataError(
            f"task {task}: targets of train are {here}, and those of test {there}; give both alike"
        )
    x, x_test = _inputs(train.x), _inputs(test.x)
    if isinstance(x, Pixels):
        x_test = Pixels(test.x, x.mean, x.std)
    names = np.unique(np.concatenate([train.y, test.y]))
    y, y_test = (_targets(task, part.y, names, classes) for part in (train, test))
    labels = None
    if train.groups is not None:
        labels = torch.from_numpy(np.unique(train.groups, return_inverse=True)[1].reshape(-1))
    known = hashlib.sha256()
    for tensor in (train.x, y, test.x, y_test):
        _add(known, tensor.numpy())
    digest = known.hexdigest()[:12]
    source = f"{what}, {len(y):,} and {len(y_test):,} samples, all of them sha256 {digest}"
    draw = None if augment is None else Augmented(x, y, augment)
    return Data(x, y, x_test, y_test, source, labels, draw, content(read or (train, test)))


def content(parts: Iterable[Part]) -> str:
    """The digest of samples as they were read: what is computed of them differs by machine.

    Example:
        >>> part = Part(torch.ones(2, 3), np.array(["a", "b"]))
        >>> content([part]) == content([part._replace(y=np.array(["a", "c"]))])
        False
    """
    return _digest(x for part in parts for x in (part.x.numpy(), part.y, part.groups))


def in_memory(data: Data) -> bool:
    """Whether no inputs are read when a batch needs them."""
    return all(isinstance(x, Tensor | Pixels) for x in (data.train_x, data.test_x))


def content_of(data: Data) -> str:
    """The digest of a data set as it lies in memory; inputs that do not are left out.

    Example:
        >>> x, y = torch.ones(2, 3), torch.zeros(2)
        >>> content_of(Data(x, y, x, y, "a")) == content_of(Data(x, y + 1, x, y, "a"))
        False
    """
    inputs = (x.stored if isinstance(x, Pixels) else x for x in (data.train_x, data.test_x))
    tensors = (x for x in (*inputs, data.train_y, data.test_y, data.labels))
    scales = (np.array([x.mean, x.std]) for x in (data.train_x, data.test_x)
              if isinstance(x, Pixels))  # fmt: skip
    return _digest([*(_array(x) for x in tensors if isinstance(x, Tensor)), *scales])


def _array(x: Tensor) -> np.ndarray:
    there = x.detach().cpu()
    found: np.ndarray = (there.view(torch.int16) if x.dtype == torch.bfloat16 else there).numpy()
    return found


def _digest(arrays: Iterable[np.ndarray | None]) -> str:
    made = hashlib.blake2b(digest_size=8)
    for values in arrays:
        if values is not None:
            made.update(f"{values.dtype} {values.shape}".encode())
            _add(made, values)
    return f"samples {made.hexdigest()}"


_PIECE = 2**24
"""Bytes of which a digest copies at most so many at a time, where they do not lie in order."""


def _add(made: Any, values: np.ndarray) -> None:
    """Adds the values of an array (N, ...), row by row, to a digest."""
    if values.dtype == object:
        made.update(repr(values.tolist()).encode())
        return
    rows = max(1, _PIECE * len(values) // max(1, values.nbytes))
    for start in range(0, len(values), rows):
        made.update(np.ascontiguousarray(values[start : start + rows]).reshape(-1).view(np.uint8))


def _inputs(x: Tensor) -> Samples:
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


def _targets(task: str, y: np.ndarray, names: np.ndarray, classes: bool) -> Tensor:
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


@contextmanager
def drawn_alike() -> Iterator[None]:
    """What a transform draws is the same in every process, and moves no generator outside."""
    plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 - transforms draw
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(arrays)  # noqa: NPY002

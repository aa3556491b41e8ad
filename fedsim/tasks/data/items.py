"""One sample of a map-style data set as inputs and target: tensors, tuples and dicts of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from fedsim.ground.errors import DataError
from fedsim.tasks.pytrees import Tree

LABEL_COLUMNS = ("label", "labels")
"""The columns that hold the target unless ``label=`` names one: the first that a row has."""

Inputs = str | Sequence[str] | None
"""The columns of a row that are inputs: one, or several by name; None: all that are left."""


class MapStyle(Protocol):
    """A map-style data set: ``len(it)`` samples, of which ``it[i]`` is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Columns(NamedTuple):
    """Which columns of a row are what.

    Attributes:
        inputs: a name: the input is that column; several: a dict of these columns.
        label: the target's.
    """

    inputs: Inputs = None
    label: str | None = None


def find_columns(task: str, row: Mapping[str, Any], named: Columns, groups: str | None) -> Columns:
    """The columns of inputs and target: as named, else those that are left.

    Example:
        >>> find_columns("mine", {"image": 0, "label": 1}, Columns(), None)
        Columns(inputs='image', label='label')
        >>> row = {"input_ids": 0, "attention_mask": 1, "labels": 2}
        >>> find_columns("mine", row, Columns(), None).inputs
        ('input_ids', 'attention_mask')
    """
    inputs, label = named
    if label is None:
        label = next((name for name in LABEL_COLUMNS if name in row), LABEL_COLUMNS[0])
    if inputs is None:
        left = tuple(name for name in row if name not in (label, groups))
        if label in row and not left:
            raise DataError(
                f"task {task}: inputs is not given, and there is no column beside {label!r}"
            )
        inputs = left[0] if len(left) == 1 else left or "image"
    input_names = [inputs] if isinstance(inputs, str) else inputs
    for setting, names in (("label", [label]), ("inputs", input_names), ("groups", [groups])):
        for name in names:
            if name is not None and name not in row:
                raise DataError(
                    f"task {task}: {setting} is {name!r}; the columns are {', '.join(row)}"
                )
    return Columns(inputs, label)


def divide(
    task: str, i: int, sample: Any, named: Columns, groups: str | None = None
) -> tuple[Any, Any, Columns]:
    """Inputs and target of a sample, or of a batch, as they are, and the columns that these were.

    Example:
        >>> divide("mine", 0, (0.5, 1), Columns())[:2]
        (0.5, 1)
        >>> divide("mine", 0, {"a": 1, "b": 2, "labels": 3}, Columns())[:2]
        ({'a': 1, 'b': 2}, 3)
        >>> divide("mine", 0, ("left", "right", 3), Columns())[:2]
        (('left', 'right'), 3)
    """
    if isinstance(sample, Mapping):
        named = find_columns(task, sample, named, groups)
        if isinstance(named.inputs, str):
            return sample[named.inputs], sample[named.label or ""], named
        return {name: sample[name] for name in named.inputs or ()}, sample[named.label or ""], named
    if not isinstance(sample, tuple | list) or len(sample) < 2:
        raise DataError(
            f"task {task}: sample {i} is of type {type(sample).__name__}; a sample is a tuple "
            "(input, target), (input, ..., target) or a row of named columns"
        )
    if groups is not None:
        raise DataError(
            f"task {task}: groups is {groups!r}, and the samples are pairs without named columns; "
            "give one number per training sample in their place"
        )
    *inputs, target = sample
    return inputs[0] if len(inputs) == 1 else tuple(inputs), target, named


def as_tree(task: str, i: int, x: Any) -> Tree:
    """Inputs as tensors: a dict, and a tuple that is more than numbers, are several.

    Example:
        >>> as_tree("mine", 0, {"ids": [1, 2], "box": (0.5, 1.0)})
        {'ids': tensor([1, 2]), 'box': tensor([0.5000, 1.0000])}
    """
    return map_parts(partial(as_tensor, task, i), x)


def map_parts(change: Callable[[Any, str], Any], x: Any, path: str = "") -> Tree:
    """The tree of what ``change`` makes of each part of a sample and of its place in it.

    A dict, and a tuple that is more than numbers, have several parts.
    """
    if isinstance(x, Mapping):
        return {k: map_parts(change, part, f"{path}[{k!r}]") for k, part in x.items()}
    if isinstance(x, tuple) and not are_numbers(x):
        return tuple(map_parts(change, part, f"{path}[{k}]") for k, part in enumerate(x))
    return change(x, path)


def are_numbers(x: Any) -> bool:
    """Whether ``x`` is a number, or sequences of numbers, which make one tensor.

    Example:
        >>> are_numbers((1, [2.0, 3])), are_numbers((torch.ones(2), 1))
        (True, False)
    """
    if isinstance(x, tuple | list):
        return all(map(are_numbers, x))
    return isinstance(x, bool | int | float | np.number | np.bool_)


def as_tensor(task: str, i: int, x: Any, path: str = "") -> Tensor:
    """One input as a tensor: an image in bytes (C, H, W), float32 numbers, or int64 symbols.

    Example:
        >>> as_tensor("mine", 0, np.zeros((2, 2, 3), np.uint8)).shape  # height, width, colour
        torch.Size([3, 2, 2])
        >>> as_tensor("mine", 0, [0.5, 1.0]).dtype
        torch.float32
        >>> as_tensor("mine", 0, [True, False], "['padding']").dtype  # of several inputs
        torch.bool
    """
    what = f"the input{path and f' {path}'} of sample {i}"
    if hasattr(x, "getbands"):  # PIL
        if x.mode[0] in "IF":  # "I;16" too
            raise DataError(
                f"task {task}: {what} is an image of mode {x.mode}, whose numbers "
                "are no bytes; give the data set a transform that makes an array of it: "
                "lambda image: np.array(image, np.float32)[None] / 65535"
            )
        x = np.array(x if x.mode in ("L", "RGB") else x.convert("RGB"))
    if isinstance(x, np.ndarray) and x.dtype == np.uint8 and x.ndim in (2, 3):
        x = torch.from_numpy(x if x.ndim == 2 else x.transpose(2, 0, 1).copy())
    try:
        tensor = torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError) as error:
        shown = f"{x[:20]!r}..." if isinstance(x, str) else f"a {type(x).__name__}"
        raise DataError(
            f"task {task}: {what} is {shown}; it is an image, an array or numbers"
            " (give the data set a transform that makes one)"
        ) from error
    if tensor.dtype == torch.uint8 and tensor.dim() in (2, 3):
        return tensor[None] if tensor.dim() == 2 else tensor
    if tensor.dtype == torch.bool and path:  # attention adds a mask of numbers, and obeys bools
        return tensor
    is_integer = not tensor.is_floating_point() and tensor.dtype not in (torch.bool, torch.uint8)
    return tensor.to(torch.int64 if is_integer else torch.float32)


@contextmanager
def drawn_alike() -> Iterator[None]:
    """A transform's draws are the same in every process, and move no generator outside."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        with arrays_drawn_alike(0):
            yield


@contextmanager
def arrays_drawn_alike(seed: int) -> Iterator[None]:
    """The same of what Python's and numpy's global generators draw."""
    plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 - transforms draw
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(plain)
        np.random.set_state(arrays)  # noqa: NPY002

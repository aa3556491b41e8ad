"""The memory of a GPU, and its precision of float32 products."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from fedsim.ground.errors import DeviceFull
from fedsim.tasks import Data
from fedsim.tasks.data.images import Augmentation, Pixels
from fedsim.tasks.pytrees import Tree, leaves, map_leaves

_SHARE = 0.5  # of the memory that is free: the rest is for models, activations and updates
_KEPT = 2
_PARTS = ("train_x", "train_y", "test_x", "test_y")
_SIZE = r"([\d.]+ [KMGT]iB)"

_placed: dict[tuple[int, torch.device], tuple[Data, Data]] = {}  # the original is kept: its id


def resident(data: Data, device: torch.device) -> Data:
    """``data`` with its tensors on ``device``, where that is a GPU with room for them.

    All trainers of a process share them. They stay on the host where a batch is more than a look
    into tensors (``Samples``, a ``Data.draw`` that is no ``Augmentation``), and where they take
    more than half of what is free.
    """
    if device.type != "cuda":
        return data
    key = id(data), device
    if key not in _placed:
        while len(_placed) >= _KEPT:
            _placed.pop(next(iter(_placed)))
        _placed[key] = data, place_data(data, device)
    return _placed[key][1]


def place_data(data: Data, device: torch.device) -> Data:
    """See ``resident``, for any device and without memory."""
    parts = {name: getattr(data, name) for name in _PARTS}
    tensors = [leaf for tree in parts.values() for leaf in leaves(tree)]
    placeable = all(isinstance(x, Tensor | Pixels) for x in tensors)
    draw = data.draw
    if not placeable or not (draw is None or isinstance(draw, Augmentation)):
        return data
    # an augmentation has the training samples once more
    if sum(x.nbytes for x in tensors) * (1 if draw is None else 2) > _SHARE * free(device):
        return data
    with enough(device):
        placed: dict[str, Any] = {
            name: map_leaves(lambda x: x.to(device), tree) for name, tree in parts.items()
        }
        return replace(data, **placed, draw=None if draw is None else draw.to(device))


def looked_into(data: Data) -> torch.device:
    """The device of the samples if a batch only indexes them; else the CPU.

    Indexing a GPU's tensor with numbers on the host would make the host wait for the GPU.
    """
    if isinstance(data.draw, Augmentation):
        return data.draw.device
    return torch.device("cpu") if data.draw is not None else device_of(data.train_x)


def device_of(inputs: Tree) -> torch.device:
    """The device of the inputs if a batch only indexes them; else the CPU."""
    first = leaves(inputs)[0]
    return first.device if isinstance(first, Tensor | Pixels) else torch.device("cpu")


def gathers(data: Data, device: torch.device) -> bool:
    """Whether ``device`` can make any training batch of numbers alone, without the host."""
    if data.draw is not None:
        indexed = isinstance(data.draw, Augmentation)
    else:
        indexed = all(isinstance(x, Tensor | Pixels) for x in leaves((data.train_x, data.train_y)))
    return indexed and looked_into(data).type == device.type


def repeatable(device: torch.device) -> None:
    """Has a GPU's libraries take sums in one order, whichever stream they run in.

    For cuBLAS it is a setting of the process, which counts before its first product.
    """
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.deterministic = True


def free(device: torch.device) -> int:
    """Bytes of memory that are free on a GPU."""
    return torch.cuda.mem_get_info(device)[0]


@contextmanager
def enough(device: torch.device) -> Iterator[None]:
    """Makes torch's error for a full GPU a ``DeviceFull``: how much was needed, what needs less.

    Example:
        >>> with enough(torch.device("cuda")):
        ...     raise torch.cuda.OutOfMemoryError("Tried to allocate 2.00 GiB. 1.50 GiB is free.")
        Traceback (most recent call last):
        fedsim.ground.errors.DeviceFull: cuda: 2.00 GiB more needed, 1.50 GiB free; lower --stack, \
--workers, --batch-size
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise device_full(device, error) from error


def device_full(device: torch.device, error: Exception) -> DeviceFull:
    """The error of fedsim for torch's: what it told of the memory, and what needs less."""
    needed_match = re.search(f"allocate {_SIZE}", str(error))
    left = re.search(f"{_SIZE} is free", str(error))
    needed = f"{needed_match[1]} more needed" if needed_match else "its memory is full"
    free_text = f", {left[1]} free" if left else ""
    return DeviceFull(f"{device}: {needed}{free_text}; lower --stack, --workers, --batch-size")


_LEAVES: list[Any] = (
    []
    if not hasattr(torch.backends.cudnn, "conv")
    else [torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn]
)
"""torch's newer flags, one per kind of operation; none before torch 2.9."""


@contextmanager
def products(tf32: bool, device: torch.device) -> Iterator[None]:
    """Inside, products of matrices and convolutions on a GPU are TF32, or whole float32.

    Where the memory of ``device`` is full, ``DeviceFull`` as of ``enough``.

    Example:
        >>> with products(True, torch.device("cpu")):
        ...     torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        ('high', True)
    """
    try:  # nothing is to be set where there is no GPU, and the CPU multiplies whole numbers
        plain = not _gpu() and torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # see ``_flags``
        plain = False
    before = None if plain and not tf32 else _flags()
    try:
        if before is not None:
            _set("high" if tf32 else "highest", tf32)
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise device_full(device, error) from error
    finally:
        if before is not None:
            _restore(*before)


@lru_cache
def _gpu() -> bool:
    return torch.cuda.is_available()


def _flags() -> tuple[tuple[str, bool] | None, list[str]]:
    """The older flags (None where the newer ones say what they cannot), and the newer."""
    fine = [leaf.fp32_precision for leaf in _LEAVES]
    try:
        return (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32), fine
    except RuntimeError:  # the caller has set the newer ones, and torch refuses to tell
        return None, fine


def _set(matrices: str, convolutions: bool) -> None:
    torch.set_float32_matmul_precision(matrices)
    torch.backends.cudnn.allow_tf32 = convolutions


def _restore(plain: tuple[str, bool] | None, fine: list[str]) -> None:
    if plain is not None:
        _set(*plain)
    for leaf, value in zip(_LEAVES, fine, strict=True):
        if leaf.fp32_precision != value:
            leaf.fp32_precision = value

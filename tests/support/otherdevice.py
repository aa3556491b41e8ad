"""A device that is not there: tensors that say that they lie on it, and are computed on the CPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

OTHER = torch.device("mps", 0)


class OtherTensor(Tensor):
    """A tensor on ``OTHER``, whose values a tensor of the CPU has."""

    values: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> Any:
        made = Tensor._make_wrapper_subclass(
            cls, values.shape, values.stride(), dtype=values.dtype, device=OTHER
        )
        made.values = values
        return made

    __torch_dispatch__ = None  # type: ignore[assignment]


class OtherDevice(TorchDispatchMode):
    """Inside, operations on ``OTHER`` are those of the CPU; those on tensors of both fail.

    Attributes:
        copies: of each copy from one to the other, where it went and how many entries it had.
    """

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[tuple[str, int]] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        there = [isinstance(x, OtherTensor) for x in inputs]
        target = kwargs.get("device")
        after = any(there) if target is None else torch.device(target).type == OTHER.type
        if target is not None:
            kwargs["device"] = torch.device("cpu")
        if function is torch.ops.aten._to_copy.default and after != there[0]:
            self.copies.append((OTHER.type if after else "cpu", inputs[0].numel()))
        elif any(there) and any(not one and x.dim() for x, one in zip(inputs, there, strict=True)):
            raise RuntimeError(f"{function}: tensors of two devices")
        args, kwargs = tree_map(
            lambda x: x.values if isinstance(x, OtherTensor) else x, (args, kwargs)
        )
        result = function(*args, **kwargs)
        if not after:
            return result
        return tree_map(lambda x: OtherTensor(x) if isinstance(x, Tensor) else x, result)


@contextmanager
def other_device() -> Iterator[OtherDevice]:
    with OtherDevice() as device:
        yield device

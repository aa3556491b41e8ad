"""A GPU's precision of float32 products: all bits, or the upper 19 bits (TF32).

torch has flags of the process for it. They are only for training: they are set while clients train
and restored afterwards. CPUs have no TF32.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Condition
from typing import Any

import torch

_TURN = Condition()
_UNDER_WAY: list[bool] = []  # of every call that is inside: whether its products are TF32
_BEFORE: list[Any] = []
_LEAVES: list[Any] = [] if not hasattr(torch.backends.cudnn, "conv") else [
    torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn
]  # fmt: skip
"""torch's newer flags, one per kind of operation; none before torch 2.9."""


@contextmanager
def products(tf32: bool) -> Iterator[None]:
    """Inside, products of matrices and convolutions on a GPU are TF32, or whole float32.

    Threads that ask for the same share it; one that asks for the other waits for them.

    Example:
        >>> with products(tf32=True):
        ...     torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        ('high', True)
    """
    if not tf32 and _is_float32():
        yield
        return
    with _TURN:
        _TURN.wait_for(lambda: tf32 in _UNDER_WAY or not _UNDER_WAY)
        if not _UNDER_WAY:
            _BEFORE[:] = _flags()
            _set("high" if tf32 else "highest", tf32)
        _UNDER_WAY.append(tf32)
    try:
        yield
    finally:
        with _TURN:
            _UNDER_WAY.pop()
            if not _UNDER_WAY:
                _restore(*_BEFORE)
            _TURN.notify_all()


def _is_float32() -> bool:
    """Whether nothing is to be set: there is no GPU, and the CPU multiplies whole numbers."""
    try:
        return not _gpu() and torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # see ``_flags``
        return False


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

"""Whether kernels run on a device: one tiny kernel is tried there, once.

Triton may be installed and yet not work: it lacks a C compiler, it is older than what the kernels
ask of it, or its interpreter, which cannot read a GPU's memory, was left switched on.
"""

import warnings
from functools import lru_cache

import numpy as np
import torch

from compressors.kernels.gpu.language import constexpr, interpreted, jit, launch, present, tl
from compressors.kernels.gpu.layout import fetch, on, upload
from compressors.usercode import error_text

_BINS = 16


@jit
def _tiny(words, counts, BINS: constexpr):
    i = tl.arange(0, BINS)
    word = tl.load(words + i).to(tl.int32)
    tl.store(counts + i, tl.histogram(word, BINS, mask=word != 0))


@lru_cache(maxsize=64)
def cause(device: torch.device) -> str:
    """Why kernels cannot run on ``device``, in a line; empty where they can."""
    if not present():
        return "triton is not installed"
    if interpreted() and device.type != "cpu":
        return "TRITON_INTERPRET is set, and Triton's interpreter runs on the CPU alone"
    try:
        with on(device):
            words, counts = upload(device, np.arange(_BINS), np.zeros(_BINS))
            counts = counts.to(torch.int32)
            launch(_tiny, 1, words, counts, BINS=_BINS)
            (counted,) = fetch(counts)
    except Exception as error:  # whatever compiler, driver or interpreter raise
        lines = error_text(error).strip().splitlines() or [""]
        return f"{type(error).__name__}: {lines[-1].strip()}"
    return "" if counted.tolist() == [0] + [1] * (_BINS - 1) else "a kernel counted wrongly"


@lru_cache(maxsize=64)
def works(device: torch.device) -> bool:
    """Whether kernels run on ``device``; where they do not, one warning says why."""
    if not present():  # nothing is wrong: the CPU does the work
        return False
    if reason := cause(device):
        warnings.warn(
            f"Triton does not work on {device} ({reason}): the CPU makes the messages of updates "
            "there, with the same bytes",
            RuntimeWarning,
            stacklevel=2,
        )
    return not reason

"""The memory of a Flower strategy, as tensors, so that a run can stop and go on.

It covers strategies whose memory is numpy arrays (mappings, lists or Flower records of them as
attributes, such as FedAdam's moments and FedAvgM's momentum) and numbers. Nothing is pickled.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord
from torch import Tensor

from compressors import State
from compressors.whole.memory import nest, unnest
from strategies.channel.payload import to_arrays


def arrays_of(inner: object) -> State:
    """Every attribute that is made of arrays, under ``attribute/kind/key``."""
    tensors: State = {}
    for name, value in vars(inner).items():
        if isinstance(value, ArrayRecord):
            copied = {k: torch.from_numpy(np.array(a.numpy())) for k, a in value.items()}
            tensors |= nest(f"{name}/record", copied)
        elif isinstance(value, dict) and value and _arrays(list(value.values())):
            tensors |= nest(f"{name}/dict", {k: _tensor(v) for k, v in value.items()})
        elif isinstance(value, list) and value and _arrays(value):
            numbered = {str(i): _tensor(v) for i, v in enumerate(value)}
            tensors |= nest(f"{name}/list", numbered)
    return tensors


def _arrays(values: list[Any]) -> bool:
    # numpy makes a scalar of what is computed from an array without dimensions
    return all(isinstance(v, np.ndarray | np.number) for v in values)


def _tensor(value: Any) -> Tensor:
    return torch.from_numpy(np.asarray(value))


def numbers_of(inner: object) -> dict[str, int | float]:
    """Every attribute that is a number: settings, and what moves (an adaptive clip's norm)."""
    return {name: x for name, x in vars(inner).items() if type(x) in (int, float)}


def put_back(inner: object, tensors: State, numbers: Mapping[str, int | float]) -> None:
    """Gives ``inner`` back what ``arrays_of`` returned, and those ``numbers`` that had moved."""
    for name, x in numbers.items():
        setattr(inner, name, x)
    for name, kind in {tuple(key.split("/")[:2]) for key in tensors}:
        part = unnest(f"{name}/{kind}", tensors)
        if kind == "record":
            setattr(inner, name, to_arrays(part))
        elif kind == "dict":
            setattr(inner, name, {k: v.numpy() for k, v in part.items()})
        else:
            setattr(inner, name, [part[str(i)].numpy() for i in range(len(part))])

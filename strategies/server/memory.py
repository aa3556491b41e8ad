"""A strategy's memory as tensors and plain values, so that a run can stop and go on.

Covers ``DelayedDSGD`` and ``Compressed`` around any strategy that remembers in numpy
arrays: mappings, lists or Flower records of them as attributes (FedAdam's moments,
FedAvgM's momentum). No pickling.
"""

from base64 import b64decode, b64encode
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord
from torch import Tensor

from compressors import State
from compressors.whole.lift import inside, nest
from strategies.channel.payload import to_arrays
from strategies.channel.server_end import Downlink, Exchange
from strategies.server.compressed import Compressed
from strategies.server.delayed import DelayedDSGD
from strategies.server.server_optimizer import Stepped

Remembering = DelayedDSGD | Compressed


def save(strategy: Remembering) -> tuple[State, dict[str, Any]]:
    """The memory after a finished round: tensors, and values that JSON can hold."""
    exchange = strategy.exchange
    if exchange is None:
        raise RuntimeError("nothing to save before the first round")
    last = exchange.last_update
    values: dict[str, Any] = {
        "version": exchange.version,
        "base": {str(client): version for client, version in exchange.base.items()},
        "update": b64encode(last.payload).decode() if last else None,
        "spans": last.spans if last else None,
    }
    tensors = nest("weights", exchange.weights) | nest("downlink", exchange.memory)
    if exchange.buffers is not None:
        tensors |= nest("buffers", exchange.buffers.values)
    if isinstance(strategy, Compressed):
        tensors |= nest("inner", _inner_tensors(strategy.strategy))
    if isinstance(strategy, Stepped):
        tensors |= nest("optimizer", strategy.state())
    return tensors, values


def restore(strategy: Remembering, tensors: State, values: dict[str, Any]) -> None:
    """Puts what ``save`` returned into a new strategy of the same settings."""
    weights, buffers = inside("weights", tensors), strategy.buffers
    if buffers is not None:
        buffers.values = inside("buffers", tensors)
    exchange = Exchange(strategy.uplink, strategy.downlink, weights, strategy.seed, buffers)
    exchange.memory = inside("downlink", tensors)
    exchange.version = values["version"]
    exchange.base = {int(client): version for client, version in values["base"].items()}
    if values["update"] is not None:
        exchange.last_update = Downlink(b64decode(values["update"]), "update", values["spans"])
    strategy.exchange = exchange
    if isinstance(strategy, Compressed):
        _set_inner(strategy.strategy, inside("inner", tensors))
    if isinstance(strategy, Stepped):
        strategy.restore(inside("optimizer", tensors))


def _inner_tensors(inner: object) -> State:
    """Every attribute that is made of arrays, under ``attribute/kind/key``."""
    found: State = {}
    for name, value in vars(inner).items():
        if isinstance(value, ArrayRecord):
            kept = {k: torch.from_numpy(np.array(a.numpy())) for k, a in value.items()}
            found |= nest(f"{name}/record", kept)
        elif isinstance(value, dict) and value and _arrays(list(value.values())):
            found |= nest(f"{name}/dict", {k: _tensor(v) for k, v in value.items()})
        elif isinstance(value, list) and value and _arrays(value):
            numbered = {str(i): _tensor(v) for i, v in enumerate(value)}
            found |= nest(f"{name}/list", numbered)
    return found


def _arrays(values: list[Any]) -> bool:
    # numpy makes a scalar of what is computed from an array without dimensions
    return all(isinstance(v, np.ndarray | np.number) for v in values)


def _tensor(value: Any) -> Tensor:
    return torch.from_numpy(np.asarray(value))


def _set_inner(inner: object, tensors: State) -> None:
    for name, kind in {tuple(key.split("/")[:2]) for key in tensors}:
        part = inside(f"{name}/{kind}", tensors)
        if kind == "record":
            setattr(inner, name, to_arrays(part))
        elif kind == "dict":
            setattr(inner, name, {k: v.numpy() for k, v in part.items()})
        else:
            setattr(inner, name, [part[str(i)].numpy() for i in range(len(part))])

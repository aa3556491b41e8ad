"""A task whose model is a frozen base with adapters of the library `peft`, which alone travel."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from compressors.usercode import typed
from fedsim.ground.errors import UsageError
from fedsim.tasks.base import Data, Task
from fedsim.tasks.factories import Reader
from fedsim.tasks.optional import optional
from strategies.generators import seeded


def from_peft(
    model: Callable[[], nn.Module], config: Any, task: Task, *, name: str, **fields: Any
) -> Task:
    """A task that trains adapters of `peft` on a frozen base, over another task's data.

    Parameters that `peft` trains travel; the base does not: every process makes it by `model` once,
    and none is sent it. Running statistics of its BatchNorm layers travel as buffers do. A digest
    of the base's weights and of `config` is part of what a run is (`Data.base`), so that a run is
    not resumed, and no worker takes part, with another base.

    Args:
        model: a function that makes the base: `partial(AutoModelForSequenceClassification
            .from_pretrained, "FOLDER")`. What it draws (a new head) follows from the run's seed.
        config: of `peft`, such as `LoraConfig(r=8, target_modules=["query", "value"])`; a new head
            is trained and travels if `modules_to_save` names it.
        task: whose data, loss, metric and settings these are; its model is not used.
        name: of the new task, as a results folder has it.
        fields: other fields of the `Task`, in place of those of `task`.

    Raises:
        UsageError: peft is not installed, `config` is none of its configurations, or a field is
            unknown; and when the model is made: peft refuses `config` for this base.

    Example:
        from_peft(lambda: Encoder(), LoraConfig(r=4, target_modules=["head"]), films, name="lora")
    """
    peft = _peft(name)
    if not isinstance(config, peft.PeftConfig):
        raise UsageError(
            f"task {name}: config is of type {type(config).__name__}; give a configuration of "
            "peft, such as peft.LoraConfig(r=8)"
        )
    if not callable(model) or isinstance(model, nn.Module):
        raise UsageError(
            f"task {name}: model is of type {type(model).__name__}; give a function that makes the "
            "base: lambda: ..."
        )
    if not isinstance(task, Task):
        raise UsageError(f"task {name}: task is of type {type(task).__name__}; give a fedsim.Task")
    frozen_config = deepcopy(config)  # as it is now: peft changes configurations when it uses them
    base = partial(_base_digest, model, frozen_config)
    load: Callable[[Path | None, bool], Data] = partial(_with_base, task.load, base)
    if isinstance(task.load, Reader):
        load = Reader(partial(_with_base, task.load.read, base), task.load.files)
    try:
        return replace(
            task,
            name=name,
            build=partial(_adapted, name, model, frozen_config),
            load=load,
            from_data=False,
            **fields,
        )
    except TypeError as error:
        raise UsageError(f"task {name}: {error}") from error


def _peft(task: str) -> Any:
    return optional("peft", f"task {task}", "pip install 'fedsim-lab[peft]'")


def _adapted(task: str, model: Callable[[], nn.Module], config: Any) -> nn.Module:
    """A new base with new adapters; what is drawn is drawn from torch's global generator."""
    peft = _peft(task)
    try:
        adapted_model: nn.Module = peft.get_peft_model(model(), deepcopy(config))
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"task {task}: config is {config!r}, which cannot be used: {typed(error)}"
        ) from error
    if not any(p.requires_grad for p in adapted_model.parameters()):
        raise UsageError(
            f"task {task}: config is {config!r}, which trains no parameter; give inference_mode="
            "False"
        )
    return adapted_model


def _with_base(read: Callable[..., Data], base: Callable[[], str], *where: Any) -> Data:
    return replace(read(*where), base=base())


def _base_digest(model: Callable[[], nn.Module], config: Any) -> str:
    """Sixteen hex digits of a base's weights, what it draws by a fixed seed, and of a config."""
    with seeded(0, torch.device("cpu")):
        base = model()
    hasher: Any = hashlib.blake2b(digest_size=8)  # numpy's arrays are buffers
    hasher.update(repr(_plain(config.to_dict())).encode())
    held = {**dict(base.named_parameters()), **dict(base.named_buffers())}
    for name, x in sorted(held.items()):
        values = x.detach().cpu().contiguous()
        hasher.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        hasher.update(values.reshape(-1).view(torch.uint8).numpy())
    return hasher.hexdigest()


def _plain(x: Any) -> Any:
    """Settings whose text is the same in every process: sets are sorted, versions left out."""
    if isinstance(x, Mapping):
        return {str(k): _plain(v) for k, v in sorted(x.items(), key=str) if k != "peft_version"}
    if isinstance(x, set | frozenset):
        return sorted(map(str, x))
    return [_plain(v) for v in x] if isinstance(x, list | tuple) else str(x)

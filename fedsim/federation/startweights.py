"""A model begins with the weights of a file in place of those that its seed draws."""

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from compressors.base import finite
from fedsim.ground.errors import UsageError
from fedsim.settings import startfile


def start_from(model: nn.Module, weights: str, task: str) -> None:
    """Fills a model with what the file of ``--weights`` holds: every parameter, and buffers.

    Frozen parameters are filled too. Buffers that the file lacks stay as they are. A tensor that
    the model has under several names (tied weights) may have one of them, or several. ``weights``
    is the flag with its digest.

    Raises ``UsageError`` where the file is damaged or has changed, lacks a parameter, has a name
    that is not the model's, a tensor of another shape or type, or one that is not finite; or where
    it has other values under another name of one tensor.
    """
    flag = f"--weights is {weights.rpartition('@')[0]!r}"
    try:
        held = load(startfile.file_bytes(weights))
    except SafetensorError as error:
        raise UsageError(f"{flag}: no file of safetensors ({error})") from error
    parameters = dict(model.named_parameters(remove_duplicate=False))
    tensors: dict[str, Tensor] = {
        **{name: p.detach() for name, p in parameters.items()},
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    names: dict[int, list[str]] = {}
    for name, p in parameters.items():
        names.setdefault(id(p), []).append(name)
    of_task = f"the model of task {task}"
    if missing := [some[0] for some in names.values() if held.keys().isdisjoint(some)]:
        raise UsageError(f"{flag}: it lacks {_listed(missing)} of {of_task}")
    if others := [name for name in held if name not in tensors]:
        raise UsageError(f"{flag}: it holds {_listed(others)}, which {of_task} does not have")
    for name, x in held.items():
        if x.shape != tensors[name].shape:
            raise UsageError(
                f"{flag}: {name!r} has shape {tuple(x.shape)}, and {tuple(tensors[name].shape)} in "
                f"{of_task}"
            )
        if x.dtype != tensors[name].dtype:
            raise UsageError(
                f"{flag}: {name!r} is {x.dtype}, and {tensors[name].dtype} in {of_task}"
            )
        if x.is_floating_point() and not finite(x):
            raise UsageError(f"{flag}: {name!r} holds NaN or infinity")
        tensors[name].copy_(x)
    for some in names.values():
        first, *more = (name for name in some if name in held)
        if others := [name for name in more if not torch.equal(held[first], held[name])]:
            raise UsageError(
                f"{flag}: {first!r} and {_listed(others)} differ, which are one tensor in {of_task}"
            )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(repr, names[:3])) + more

"""A model begins with the weights of a file in place of those that its seed draws."""

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from compressors.base import finite
from fedsim.ground.errors import UsageError
from fedsim.settings import startfile


def start_from(model: nn.Module, weights: str, task: str) -> None:
    """Fills a model with what the file of ``--weights`` holds: every parameter, and buffers.

    Frozen parameters are filled too. Buffers that the file lacks stay as they are.

    Args:
        model: whose values are changed.
        weights: the setting, its digest with it.
        task: whose model it is, for words.

    Raises:
        UsageError: the file is damaged or has changed, lacks a parameter, has a name that is not
            the model's, or a tensor of another shape or type, or one that is not finite.
    """
    said = f"--weights is {weights.rpartition('@')[0]!r}"
    try:
        held = load(startfile.content(weights))
    except SafetensorError as error:
        raise UsageError(f"{said}: no file of safetensors ({error})") from error
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    own: dict[str, Tensor] = {**parameters, **dict(model.named_buffers())}
    of_task = f"the model of task {task}"
    if missing := [name for name in parameters if name not in held]:
        raise UsageError(f"{said}: it lacks {_told(missing)} of {of_task}")
    if others := [name for name in held if name not in own]:
        raise UsageError(f"{said}: it holds {_told(others)}, which {of_task} does not have")
    for name, x in held.items():
        if x.shape != own[name].shape:
            raise UsageError(
                f"{said}: {name!r} has shape {tuple(x.shape)}, and {tuple(own[name].shape)} in "
                f"{of_task}"
            )
        if x.dtype != own[name].dtype:
            raise UsageError(
                f"{said}: {name!r} is {x.dtype}, and {own[name].dtype} in {of_task}"
            )
        if x.is_floating_point() and not finite(x):
            raise UsageError(f"{said}: {name!r} holds NaN or infinity")
        own[name].copy_(x)


def _told(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(repr, names[:3])) + more

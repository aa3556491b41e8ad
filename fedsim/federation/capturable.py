"""Whether the local step of a run can be captured: tried on a batch before the run."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from compressors import State
from fedsim.federation.captured import Gradients, eager, gradients_of
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer
from fedsim.ground.errors import UsageError
from fedsim.settings.config import RunConfig
from strategies.generators import seeded, states

NEAR = {"float32": 1e-3, "bfloat16": 0.3}
"""Of a gradient's norm. Sums in another order differ by less, and a step that is wrong by more: in
bfloat16 the gradients of a small CNN are off by 0.1 either way."""


class Differs(Exception):
    """Why two ways to train are not the same."""


def check(config: RunConfig) -> None:
    """Refuses ``--compile-step`` where a captured step is not the step itself.

    Raises ``UsageError``, which says why. A step that draws random numbers would draw the same in
    every iteration, for what was drawn is captured too.
    """
    if config.compile_step == "none":
        return
    trainer = Trainer(config, ClientData.of(config))
    try:
        if any(layer.p > 0 for layer in trainer.dropouts):
            raise Differs("dropout draws its masks anew in every step")
        with seeded(0, trainer.device), whole_float32(trainer.device):
            _compared(trainer)
    except Exception as error:
        reason = " ".join(str(error).split())
        kind = "" if isinstance(error, Differs) else f"{type(error).__name__}: "
        raise UsageError(
            f"--compile-step is {config.compile_step}: the step of task {trainer.task.name} cannot "
            f"be captured: {kind}{reason:.200} (--compile-step none trains without)"
        ) from error


def _compared(trainer: Trainer) -> None:
    """Raises ``Differs`` unless two batches give the gradients of a step that is not captured."""
    captured, alone = gradients_of(trainer), eager(trainer)
    for iteration in (0, 1):
        batch = trainer.batch(0, iteration)
        before = states(trainer.device)
        expected = _one(trainer, alone, *batch)
        if not all(map(torch.equal, before, states(trainer.device))):
            raise Differs("it draws from torch's global generator")
        found = _one(trainer, captured, *batch)
        if found.keys() != expected.keys():
            raise Differs(f"it leaves gradients of {len(found)} tensors, not of {len(expected)}")
        for name, x in expected.items():
            if not near(x, found[name], trainer.config.precision):
                raise Differs(f"{name} differs")


def _one(trainer: Trainer, gradients: Gradients, x: Tensor, y: Tensor) -> State:
    """What one batch leaves: gradients and buffers by name, and the loss."""
    trainer.buffers.load({})
    trainer.model.train()
    loss = gradients(x, y)
    found = {n: p.grad.clone() for n, p in trainer.parameters.items() if p.grad is not None}
    return found | trainer.buffers.copy() | {"the loss": loss.clone()}


def whole_float32(device: torch.device) -> AbstractContextManager[None]:
    """Inside, convolutions on a GPU multiply float32 numbers and not their upper 19 bits (TF32).

    For comparisons: two ways to train then differ as sums in another order do.
    """
    if device.type != "cuda":
        return nullcontext()
    return torch.backends.cudnn.flags(enabled=True, allow_tf32=False)


def near(one: Tensor, other: Tensor, precision: str) -> bool:
    """Whether ``other`` is ``one`` but for sums in another order.

    Example:
        >>> near(torch.ones(3), torch.ones(3) * 1.0001, "float32")
        True
    """
    allowed = NEAR[precision] * float(one.double().norm()) + 1e-6
    return float((one.double() - other.double()).norm()) <= allowed

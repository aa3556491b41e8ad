"""A local step's gradients: launched one by one, or captured once (``--compile-step``).

The launches of its operations bound a small model's step. ``graphs`` records forward and backward
pass as a CUDA graph, which is one launch; ``compile`` hands them to ``torch.compile``, which fuses
operations, and on a GPU records them too (its mode ``reduce-overhead``). The optimizer's step stays
outside, for its rate changes from iteration to iteration.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fedsim.settings.config import RunConfig
from fedsim.tasks import Task

Gradients = Callable[[Tensor, Tensor], Tensor]
"""Inputs and targets of a batch -> its loss; the gradients are then those of the parameters."""

BACKEND = "inductor"
"""Of ``torch.compile``; its kernels are generated, which takes a C++ compiler on a CPU."""

_WARM = 3  # passes before a recording, as CUDA's libraries and autograd want it


class Trains(Protocol):
    """What a trainer has that a step is made of."""

    config: RunConfig
    task: Task
    device: torch.device
    model: nn.Module
    optimizer: Optimizer
    parameters: dict[str, nn.Parameter]

    def precision(self) -> AbstractContextManager[Any]:
        """The precision of forward and backward pass."""
        ...


def gradients_of(trainer: Trains) -> Gradients:
    """The gradients of a step, as ``--compile-step`` says."""
    ways: dict[str, Callable[[Trains], Gradients]]
    ways = {"none": eager, "graphs": Graphed, "compile": Compiled}
    return ways[trainer.config.compile_step](trainer)


def eager(trainer: Trains) -> Gradients:
    """One operation after the other."""

    def gradients(x: Tensor, y: Tensor) -> Tensor:
        with trainer.precision():
            loss = trainer.task.loss(trainer.model(x), y)
        trainer.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        return loss.detach()

    return gradients


class Compiled:
    """Forward and backward pass by ``torch.compile``, whole: what it cannot take is an error."""

    def __init__(self, trainer: Trains) -> None:
        def forward(x: Tensor, y: Tensor) -> Tensor:
            with trainer.precision():
                return trainer.task.loss(trainer.model(x), y)

        mode = "reduce-overhead" if trainer.device.type == "cuda" else None
        self._forward = torch.compile(
            forward, fullgraph=True, dynamic=False, backend=BACKEND, mode=mode
        )
        self._optimizer = trainer.optimizer

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """See ``Gradients``."""
        torch.compiler.cudagraph_mark_step_begin()  # what the last step left may be written over
        self._optimizer.zero_grad(set_to_none=True)
        loss: Tensor = self._forward(x, y)
        loss.backward()
        return loss.detach().clone()


class _Recording(NamedTuple):
    """A recorded step: where it reads its batch, and where it leaves loss and gradients."""

    x: Tensor
    y: Tensor
    replay: Callable[[], None]
    loss: Tensor
    gradients: list[tuple[nn.Parameter, Tensor]]


class Graphed:
    """Forward and backward pass as a CUDA graph: one per shape of a batch, recorded as it comes."""

    def __init__(self, trainer: Trains) -> None:
        self._trainer = trainer
        self._recordings: dict[Any, _Recording] = {}

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """See ``Gradients``."""
        key = x.shape, x.dtype, x.stride(), y.shape, y.dtype
        if key not in self._recordings:
            self._recordings[key] = self._recorded(x.clone(), y.clone())
        one = self._recordings[key]
        one.x.copy_(x)
        one.y.copy_(y)
        one.replay()
        for p, gradient in one.gradients:
            p.grad = gradient
        return one.loss.clone()

    def _recorded(self, x: Tensor, y: Tensor) -> _Recording:
        """A recording of the step on ``x`` and ``y``; the model's buffers are as before."""
        own = self._trainer

        def step() -> Tensor:
            for p in own.parameters.values():
                p.grad = None  # a backward pass then makes one, in the graph's own memory
            with own.precision():
                loss: Tensor = own.task.loss(own.model(x), y)
            loss.backward()
            return loss.detach()

        kept = [(buffer, buffer.clone()) for buffer in own.model.buffers()]
        replay, loss = record(step, own.device)
        with torch.no_grad():
            for buffer, value in kept:
                buffer.copy_(value)
        reached = [(p, p.grad) for p in own.parameters.values() if p.grad is not None]
        return _Recording(x, y, replay, loss, reached)


def record(
    work: Callable[[], Tensor], device: torch.device
) -> tuple[Callable[[], None], Tensor]:
    """What does ``work`` again as one launch, and the tensor that each time holds its result."""
    current, aside = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    aside.wait_stream(current)
    with torch.cuda.stream(aside):
        for _ in range(_WARM):
            work()
    current.wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = work()
    return graph.replay, result

"""A CPU's stand-in for a GPU's graphs: torch's operations on a tape, which runs without Python.

As a graph it repeats operations on the same tensors, whatever the Python around them would do now:
what a step reads on the host (``.item()``, a counter, a tensor that is another one now) stays as it
was when the step was recorded.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from compressors.kernels.gpu.graphs import Recording
from compressors.kernels.gpu.language import WATCHERS
from fedsim.federation.recorder import ClientStep, StepRecorder


class Tape(TorchDispatchMode):
    """Operations with their arguments and outcomes, as they are carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[bool, Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = op(*args, **(kwargs or {}))
        self.operations.append((torch.is_grad_enabled(), op, args, kwargs or {}, out))
        return out

    def repeat(self) -> None:
        """Carries them out again; each outcome lies where it lay."""
        with torch._C._AutoDispatchBelowAutograd():
            for training, op, args, kwargs, out in self.operations:
                with torch.set_grad_enabled(training):  # some return a workspace then
                    again = op(*args, **kwargs)
                leaves = map(_pytree.tree_leaves, (out, again))
                for x, y in zip(*leaves, strict=True):
                    if isinstance(x, Tensor) and x.data_ptr() != y.data_ptr():
                        x.copy_(y)


class TapeRecorder(StepRecorder):
    """Records steps on tapes.

    Attributes:
        counts: steps carried out, records and repeated steps.
    """

    def __init__(self) -> None:
        self.counts = {"run": 0, "record": 0, "repeat": 0}

    def run(self, works: Sequence[ClientStep]) -> None:
        self.counts["run"] += 1
        super().run(works)

    def record(
        self, works: Sequence[ClientStep], generators: Iterable[torch.Generator]
    ) -> ClientStep:
        self.counts["record"] += 1
        with Tape() as tape:
            super().run(works)
        done = [tape.repeat]  # to record is to carry out, here alone

        def repeat() -> None:
            self.counts["repeat"] += 1
            if len(done) > 1:
                tape.repeat()
            done.append(tape.repeat)

        return repeat


class KernelTape(Tape):
    """A tape that has the kernels between torch's operations, too."""

    def watch(self, start: Callable[[], None], arguments: tuple[Any, ...]) -> None:
        self.operations.append((False, start, (), {}, None))
        with _disable_current_modes():
            start()


def record_tape(work: Callable[[], Any]) -> Recording:
    """``record_graph`` of a CPU, whose kernels the interpreter carries out."""
    tape = KernelTape()
    WATCHERS.append(tape.watch)
    try:
        with tape:
            result = work()
    finally:
        WATCHERS.remove(tape.watch)
    return Recording(tape.repeat, result, None)

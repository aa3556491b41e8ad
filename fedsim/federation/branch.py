"""One of several clients that train together: a trainer of its own, whose tensors stay in place.

A recorded step reads and writes the memory that it was recorded with. So what a client brings
(weights, the optimizer's state, buffers, tensors of gradient hooks, batches) is copied to where
that of the client before it was.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from compressors import State
from fedsim.federation.recorder import NotRecorded
from fedsim.federation.trainer import Trainer
from fedsim.tasks.pytrees import Tree, map_leaves, named_leaves
from strategies import TensorHook, TrainJob
from strategies.algorithms.chain import flat_hooks

_SHAPES = 16
"""Of how many shapes a client's batches may be: each has its place, and its recorded step."""


class Branch:
    """The place of one client; clients follow each other in it from round to round.

    Attributes:
        trainer: whose model, optimizer and masks are this branch's alone.
        total: the sum of the losses of the present client's steps, on the device.
        state_kind: equal whenever the step reads the same places: the optimizer's state (which
            there is, "none yet" and "zeros" differ; numbers in it, which a recorded step would
            repeat) and the gradient hooks.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.total = torch.zeros((), device=trainer.device)
        self.state_kind: Hashable = ()
        self._hooks: list[TensorHook] = []
        self._gradients: State = (
            {} if trainer.steps else {n: torch.zeros_like(p) for n, p in trainer.template.items()}
        )
        self._numbers: Tensor | None = None
        self._batch: tuple[Tree, Tree] = (None, None)
        self._factor: float | None = None
        # where each lies, by what it is
        self._states: dict[Hashable, Tensor] = {}
        self._hooks_of: dict[Hashable, TensorHook] = {}
        self._batches: dict[Hashable, tuple[Tree, Tree]] = {}

    def begin(self, job: TrainJob, weights: Sequence[Tensor]) -> None:
        """Takes over a client and its ``weights``, on the device, in the parameters' order."""
        self.trainer.begin(weights, job.optimizer, job.buffers)
        hooks = [hook for hook in flat_hooks(job.gradient_hooks) if isinstance(hook, TensorHook)]
        self._hooks = [self._in_place(i, hook) for i, hook in enumerate(hooks)]
        self.total.zero_()
        self.settle()

    def _in_place(self, ordinal: int, hook: TensorHook) -> TensorHook:
        """A hook that does the same with tensors at the place of this kind of hook."""
        hook = hook.at(self.trainer.parameters)
        key = ordinal, hook.kind
        if key not in self._hooks_of:
            tensors = {name: x.clone() for name, x in hook.tensors.items()}
            self._hooks_of[key] = replace(hook, tensors=tensors)
        elif hook.tensors:
            places = [*self._hooks_of[key].tensors.values()]
            torch._foreach_copy_(places, [*hook.tensors.values()])
        return self._hooks_of[key]

    def settle(self) -> None:
        """Moves the optimizer's state to its places, and sees anew which there is."""
        optimizer, kinds = self.trainer.optimizer, list[Hashable]()
        places, values = list[Tensor](), list[Tensor]()
        for name, p in self.trainer.parameters.items():
            held = optimizer.state.get(p, {})
            for kind, x in held.items():
                if not isinstance(x, Tensor):
                    kinds.append((name, kind, repr(x)))
                    continue
                # Strides: by them torch chooses its kernels, as for a client by itself.
                key = name, kind, x.shape, x.stride(), x.dtype, x.device
                kinds.append(key)
                if (place := self._states.setdefault(key, x)) is not x:
                    places.append(place)
                    values.append(x)
                    held[kind] = place
        if places:
            with torch.no_grad():
                torch._foreach_copy_(places, values)
        for group in optimizer.param_groups:
            kinds += [(k, repr(x)) for k, x in group.items() if k not in ("params", "lr")]
        self.state_kind = *kinds, *(hook.kind for hook in self._hooks)

    def set_rates(self, factor: float) -> None:
        """Sets the learning rates of the next step: the base rates times ``factor``."""
        if factor != self._factor:
            self.trainer.set_rates(factor)
            self._factor = factor

    def gather(self, numbers: Tensor) -> None:
        """Makes the batches of the next steps of what ``numbers`` (B, 1 + M) holds then."""
        self._numbers = numbers

    def take(self, batch: tuple[Tree, Tree]) -> Hashable:
        """Takes the next step's batch, copied to its place; returns what that is known by."""
        self._numbers = None
        leaves = named_leaves(batch)
        key = tuple(
            (path, x.shape, x.stride(), x.dtype) if isinstance(x, Tensor) else (path, repr(x))
            for path, x in leaves
        )
        if key not in self._batches:
            if len(self._batches) == _SHAPES:
                raise NotRecorded from ValueError(f"batches have more than {_SHAPES} shapes")
            self._batches[key] = map_leaves(_cloned, batch)
        else:
            map_leaves(_copied, self._batches[key], batch)
        self._batch = self._batches[key]
        return key

    def step(self) -> None:
        """One local step; what it reads and writes has its place."""
        trainer = self.trainer
        batch = self._batch if self._numbers is None else trainer.batch_of(self._numbers)
        self.total += trainer.step(*batch, self._hooks)
        for name, place in self._gradients.items():
            gradient = trainer.parameters[name].grad
            if gradient is None:
                place.zero_()
            else:
                place.copy_(gradient)

    def clear_gradients(self) -> None:
        """Frees what the last step has left, which a step before its record need not keep."""
        for p in self.trainer.parameters.values():
            p.grad = None

    def generators(self) -> list[torch.Generator]:
        """From which the model's own masks are drawn."""
        layers = [layer for layer in self.trainer.dropouts if layer.p > 0]
        return [layer.generator(self.total.device) for layer in layers]

    def update(self, before: Sequence[Tensor]) -> dict[str, Tensor]:
        """What the client sends, of new tensors; ``before``: its first weights."""
        trainer = self.trainer
        if trainer.steps:
            return trainer.update(before)
        return {
            name: x.clone(memory_format=torch.contiguous_format)
            if name in trainer.held
            else torch.zeros_like(x)
            for name, x in self._gradients.items()
        }

    def memory(self) -> tuple[State, State]:
        """The optimizer's state and the buffers, which no later client changes."""
        trainer = self.trainer
        state = dict(trainer.optimizer_state()) if trainer.steps else {}
        copies = {name: torch.empty_like(x) for name, x in state.items()}
        if state:
            torch._foreach_copy_([*copies.values()], [*state.values()])
        return copies, trainer.buffers.copy() if trainer.has_buffers else {}


def _cloned(x: object) -> object:
    return x.clone() if isinstance(x, Tensor) else x


def _copied(place: object, x: object) -> object:
    return place.copy_(x) if isinstance(place, Tensor) and isinstance(x, Tensor) else place

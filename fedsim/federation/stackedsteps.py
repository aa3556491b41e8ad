"""The task's optimizer over the parameters of several clients at once, stacked along a new axis.

An optimizer that works entry by entry does the same to stacked parameters as to each client's own,
as long as what else it keeps (Adam's count of steps; which keys there are) is the same for all.
Clients that differ in it have spans of their own along the axis, with an optimizer each.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, optim

from compressors import State
from fedsim.federation.trainer import Trainer, make_optimizer
from strategies import TrainJob, client_optimizers
from strategies.client_optimizers import load_optimizer_state, optimizer_state

ENTRY_BY_ENTRY = (
    optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad, optim.RMSprop, optim.Adadelta, optim.Adamax,
    optim.NAdam, optim.RAdam,
    client_optimizers.SGD, client_optimizers.Adam, client_optimizers.AdamW,
)  # fmt: skip
"""The optimizers that can be stacked. A class of a user's own, made of one of them, is another."""

_COUNTS = ("step", "mu_product")
"""What these keep once per parameter, also of one without dimensions."""


class StackJob(NamedTuple):
    """A job and the trainer of its run, which knows the run's samples, rate and first memory."""

    trainer: Trainer
    job: TrainJob

    @property
    def memory(self) -> State:
        """What the client's optimizer begins with."""
        return self.job.optimizer or self.trainer.fresh

    @property
    def kind(self) -> tuple[int, int, int]:
        """The key of a stack, equal for its jobs: iterations, number of the first, batch size."""
        size = self.trainer.batches_of(self.job.client).size
        return self.job.iterations, self.job.start, size

    @property
    def alike(self) -> str:
        """The key of a shared optimizer, equal for the clients that can use one.

        It has the settings, the memory's keys, and numbers that belong to no entry (Adam's count).

        Example:
            >>> from fedsim import RunConfig
            >>> from fedsim.federation.clientdata import ClientData
            >>> config = RunConfig(task="digits")
            >>> trainer = Trainer(config, ClientData.of(config))
            >>> memory = {"step/2.bias": torch.tensor(3.0), "exp_avg/3.bias": torch.ones(64)}
            >>> StackJob(trainer, TrainJob(0, {}, memory, 3, 1, {}, 3)).alike[:53]
            "[('exp_avg/3.bias', ''), ('step/2.bias', '3.0')] [0.0"
        """
        parameters = self.trainer.parameters
        keys = [
            (key, "" if _by_entry(key, x, parameters) else str(x.tolist()))
            for key, x in self.memory.items()
        ]
        return f"{sorted(keys)} {self.trainer.base_lr} {self.trainer.defaults}"


def _by_entry(key: str, value: Tensor, parameters: Mapping[str, Tensor]) -> bool:
    """Whether a client's ``value`` has one number per entry of the parameter that the key names."""
    kind, name = key.split("/", 1)
    return kind not in _COUNTS and name in parameters and value.shape == parameters[name].shape


class StackedSteps:
    """Steps of stacked parameters, in place.

    Args:
        stacked: parameters by name (K, ...), which the steps change.
        jobs: whose they are, in their order: those that are ``alike`` side by side.
    """

    def __init__(self, stacked: Mapping[str, Tensor], jobs: Sequence[StackJob]) -> None:
        self._spans = _spans([one.alike for one in jobs])
        self._trainers = [jobs[a].trainer for a, _ in self._spans]
        self._views = [{n: p[a:b] for n, p in stacked.items()} for a, b in self._spans]
        self._optimizers = list[optim.Optimizer]()
        spans = zip(self._trainers, self._views, self._spans, strict=True)
        for trainer, views, (a, b) in spans:
            # The task's, of other parameters, with the clients' memory.
            template, states = trainer.parameters, [one.memory for one in jobs[a:b]]
            optimizer = make_optimizer(trainer.config, template.values())
            stands_for = {id(p): views[name] for name, p in template.items()}
            for group in optimizer.param_groups:
                group["params"] = [stands_for[id(p)] for p in group["params"]]
            optimizer.state.clear()
            joint = {
                key: torch.stack([s[key] for s in states]) if _by_entry(key, x, template) else x
                for key, x in states[0].items()
            }
            parameters: Any = views  # as good as parameters: leaves that are given their gradients
            load_optimizer_state(optimizer, parameters, joint, trainer.defaults)
            self._optimizers.append(optimizer)

    def step(self, gradients: Mapping[str, Tensor], factor: float) -> None:
        """One step of all clients.

        Args:
            gradients: by name (K, ...); a parameter that is not there is left as it is.
            factor: on the learning rate.
        """
        spans = zip(self._optimizers, self._trainers, self._views, self._spans, strict=True)
        for optimizer, trainer, views, (a, b) in spans:
            for group, base in zip(optimizer.param_groups, trainer.base_lr, strict=True):
                group["lr"] = base * factor
            for name, gradient in gradients.items():
                views[name].grad = gradient[a:b]
            optimizer.step()

    def states(self) -> list[State]:
        """Each client's memory, as ``Trainer.optimizer_state`` has it."""
        memories = []
        spans = zip(self._optimizers, self._trainers, self._views, self._spans, strict=True)
        for optimizer, trainer, views, (a, b) in spans:
            parameters: Any = views
            joint = optimizer_state(optimizer, parameters, trainer.defaults)
            by_client = unstack({k: x for k, x in joint.items() if _by_entry(k, x, views)}, b - a)
            memories += [
                {key: one[key] if key in one else x.clone() for key, x in joint.items()}
                for one in by_client
            ]
        return memories


def unstack(stacked: State, count: int) -> list[State]:
    """The tensors (``count``, ...) of each client, which keep no other's alive.

    Example:
        >>> unstack({"w": torch.eye(2)}, 2)
        [{'w': tensor([1., 0.])}, {'w': tensor([0., 1.])}]
    """
    plain, parts = torch.contiguous_format, {name: x.unbind() for name, x in stacked.items()}
    return [
        {name: each[i].clone(memory_format=plain) for name, each in parts.items()}
        for i in range(count)
    ]


def _spans(keys: Sequence[str]) -> list[tuple[int, int]]:
    """The spans (start, end) of equal keys, in order."""
    starts = [i for i, key in enumerate(keys) if i == 0 or key != keys[i - 1]]
    return list(zip(starts, [*starts[1:], len(keys)], strict=True))

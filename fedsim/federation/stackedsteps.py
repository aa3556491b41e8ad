"""The task's optimizer over the parameters of several clients at once, stacked along a new axis.

An optimizer that works entry by entry does the same to stacked parameters as to each client's own,
as long as what else it keeps (Adam's count of steps; which keys there are) is the same for all.
Clients of whom that differs stand in spans of their own along the axis, with an optimizer each.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, optim

from compressors import State
from fedsim.federation.trainer import Trainer, make_optimizer
from strategies import steps
from strategies.optimizers import load_optimizer_state, optimizer_state

ENTRY_BY_ENTRY = (
    optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad, optim.RMSprop, optim.Adadelta, optim.Adamax,
    optim.NAdam, optim.RAdam, steps.SGD, steps.Adam, steps.AdamW,
)  # fmt: skip
"""The optimizers that can be stacked. A class of a user's own, made of one of them, is another."""

_COUNTS = ("step", "mu_product")
"""What these keep once per parameter, also of one without dimensions."""


def alike(state: State, parameters: Mapping[str, Tensor]) -> str:
    """What is the same for clients whose optimizers can be one: keys, and numbers of no entry.

    Example:
        >>> w = {"w": torch.zeros(2)}
        >>> alike({"step/w": torch.tensor(3.0), "exp_avg/w": torch.ones(2)}, w)
        "[('exp_avg/w', ''), ('step/w', '3.0')]"
    """
    kept = [
        (key, "" if _by_entry(key, x, parameters) else str(x.tolist())) for key, x in state.items()
    ]
    return str(sorted(kept))


def _by_entry(key: str, value: Tensor, parameters: Mapping[str, Tensor]) -> bool:
    """Whether a client's ``value`` has one number per entry of the parameter that the key names."""
    kind, name = key.split("/", 1)
    return kind not in _COUNTS and name in parameters and value.shape == parameters[name].shape


class StackedSteps:
    """Steps of stacked parameters, in place.

    Args:
        trainer: whose task makes the optimizers.
        stacked: parameters by name (K, ...), which the steps change.
        states: the optimizer's memory of each client, those that are ``alike`` side by side.
    """

    def __init__(
        self, trainer: Trainer, stacked: Mapping[str, Tensor], states: Sequence[State]
    ) -> None:
        self._trainer = trainer
        self._spans = _spans([alike(state, trainer.parameters) for state in states])
        self._views = [{n: p[a:b] for n, p in stacked.items()} for a, b in self._spans]
        self._optimizers, own = list[optim.Optimizer](), trainer.parameters
        for views, (a, b) in zip(self._views, self._spans, strict=True):
            # The task's, of other parameters, with the clients' memory.
            optimizer = make_optimizer(trainer.config, own.values())
            stands_for = {id(p): views[name] for name, p in own.items()}
            for group in optimizer.param_groups:
                group["params"] = [stands_for[id(p)] for p in group["params"]]
            optimizer.state.clear()
            joint = {
                key: torch.stack([s[key] for s in states[a:b]]) if _by_entry(key, x, own) else x
                for key, x in states[a].items()
            }
            parameters: Any = views  # as good as parameters: leaves that are given their gradients
            load_optimizer_state(optimizer, parameters, joint, trainer.made)
            self._optimizers.append(optimizer)

    def step(self, gradients: Mapping[str, Tensor], factor: float) -> None:
        """One step of all clients.

        Args:
            gradients: by name (K, ...); a parameter that is not there is left as it is.
            factor: on the learning rate.
        """
        every = zip(self._optimizers, self._views, self._spans, strict=True)
        for optimizer, views, (a, b) in every:
            for group, base in zip(optimizer.param_groups, self._trainer.base_lr, strict=True):
                group["lr"] = base * factor
            for name, gradient in gradients.items():
                views[name].grad = gradient[a:b]
            optimizer.step()

    def states(self) -> list[State]:
        """Each client's memory, as ``Trainer.optimizer_state`` has it."""
        found = []
        for optimizer, views, (a, b) in zip(
            self._optimizers, self._views, self._spans, strict=True
        ):
            parameters: Any = views
            joint = optimizer_state(optimizer, parameters, self._trainer.made)
            found += [
                {
                    key: (x[i] if _by_entry(key, x, views) else x).clone()
                    for key, x in joint.items()
                }
                for i in range(b - a)
            ]
        return found


def _spans(keys: Sequence[str]) -> list[tuple[int, int]]:
    """From where to where the same key stands, in order."""
    starts = [i for i, key in enumerate(keys) if i == 0 or key != keys[i - 1]]
    return list(zip(starts, [*starts[1:], len(keys)], strict=True))

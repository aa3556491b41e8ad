"""Optimizers of torch: their memory as tensors by name, and faster steps with the same bits.

The memory has everything in the ``state_dict`` except the parameters and the learning rate, which
the run sets: a parameter's state under ``kind/parameter``, and changes in a group of parameters
under ``group#0/key``. A Python number becomes a tensor without dimensions, which its key marks.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, optim
from torch.nn import Parameter
from torch.optim import Optimizer

from compressors import State

GroupSettings = list[dict[str, Any]]
"""The entries of every group of parameters, except the parameters and the learning rate."""

_GROUP = "group#"
_NUMBER = "number#"
_SET = ("params", "lr", "initial_lr")  # by the run
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}


def settings_of(optimizer: Optimizer) -> GroupSettings:
    """What the groups of a new optimizer hold: what it was made with, copied."""
    return [
        {key: deepcopy(value) for key, value in group.items() if key not in _SET}
        for group in optimizer.param_groups
    ]


def optimizer_state(
    optimizer: Optimizer, parameters: Mapping[str, Parameter], initial_settings: GroupSettings
) -> State:
    """What ``optimizer`` remembers as tensors by name; tensors are not copied.

    Args:
        optimizer: of ``parameters``.
        parameters: by name.
        initial_settings: its settings when it was new; only what differs from them is kept.

    Raises ``ValueError``, naming it, for what is neither a dense tensor nor a number (None, a text,
    a list), and for what is kept under anything but a parameter.
    """
    state: State = {}
    for name, p in parameters.items():
        for kind, value in optimizer.state.get(p, {}).items():
            plain = isinstance(value, Tensor) and value.layout == torch.strided
            tensor = value if plain else _number(value, f"state[parameter {name!r}][{kind!r}]")
            if not isinstance(kind, str) or "/" in kind or "#" in kind:
                raise ValueError(f"state[parameter][{kind!r}] is not a name without '/' and '#'")
            state[f"{'' if plain else _NUMBER}{kind}/{name}"] = tensor
    trained = set(parameters.values())
    for holder in optimizer.state:
        if holder not in trained:
            raise ValueError(f"state[{holder!r}] is kept for no parameter")
    for number, (group, fresh) in enumerate(
        zip(optimizer.param_groups, initial_settings, strict=True)
    ):
        for key, value in group.items():
            same = key in fresh and (value is fresh[key] or _equal(value, fresh[key]))
            if key not in _SET and not same:
                plain = isinstance(value, Tensor) and value.layout == torch.strided
                tensor = value if plain else _number(value, f"param_groups[{number}][{key!r}]")
                state[f"{_GROUP}{number}/{'' if plain else _NUMBER}{key}"] = tensor
    return state


def load_optimizer_state(
    optimizer: Optimizer,
    parameters: Mapping[str, Parameter],
    state: State,
    initial_settings: GroupSettings,
) -> None:
    """Puts back what ``optimizer_state`` returned, copying: steps work in place, states may not.

    Groups have their ``initial_settings``, except for settings in ``state``. With an empty state
    the rest of the optimizer stays as it was made: Adagrad begins with sums.
    """
    for group, fresh in zip(optimizer.param_groups, initial_settings, strict=True):
        for key in [key for key in group if key not in _SET and key not in fresh]:
            del group[key]
        group.update({k: x if type(x) in _NUMBERS else deepcopy(x) for k, x in fresh.items()})
    if not state:
        return
    optimizer.state.clear()
    copies, copied = list[Tensor](), list[Tensor]()
    groups = [group for group in optimizer.param_groups if group.get("capturable")]
    on_device = {p for group in groups for p in group["params"]}
    for key, value in state.items():
        first, name = key.split("/", 1)
        kind = first.removeprefix(_NUMBER)
        if first.startswith(_GROUP):
            entry = name.removeprefix(_NUMBER)
            held: Any = value.item() if entry != name else value.clone()
            optimizer.param_groups[int(first.removeprefix(_GROUP))][entry] = held
        elif kind != first:
            optimizer.state[parameters[name]][kind] = value.item()
        else:
            p = parameters[name]  # a copy where it is, laid out so; counts are left in place
            if value.shape == p.shape:
                copies.append(torch.empty_like(p, dtype=value.dtype, requires_grad=False))
                copied.append(value)
                optimizer.state[p][kind] = copies[-1]
            else:
                moves = value.dim() or p in on_device
                optimizer.state[p][kind] = value.to(p.device, copy=True) if moves else value.clone()
    if copies:
        torch._foreach_copy_(copies, copied)


def _number(value: Any, where: str) -> Tensor:
    """The tensor of a Python number; ``ValueError``, naming ``where``, for anything else."""
    if isinstance(value, Tensor):
        raise ValueError(f"{where} is a sparse tensor; what is kept is dense")
    dtype = _NUMBERS.get(type(value))
    if dtype is None or (dtype == torch.int64 and not -(2**63) <= int(value) < 2**63):
        raise ValueError(
            f"{where} is {value!r:.40}, which is neither a tensor nor a number of 64 bits"
        )
    return torch.tensor(value, dtype=dtype, device="cpu")


def _equal(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and bool(one == other)


Group = dict[str, Any]
Several = list[Tensor] | tuple[Tensor, ...]

_OTHER = ("foreach", "fused", "capturable", "differentiable")


class _Own(Optimizer):
    """What the three share: torch's methods without what imports its compiler."""

    add_param_group = unwrap(Optimizer.add_param_group)
    zero_grad = unwrap(Optimizer.zero_grad)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of all parameters that have a gradient; what ``closure`` returns, if any."""
        ours = closure is None
        for group in self.param_groups:
            numbers = (group["lr"], group["weight_decay"], *group.get("betas", ()))
            ours &= not any(map(group.get, _OTHER))
            ours &= not any(isinstance(number, Tensor) for number in numbers)
            for p in group["params"]:
                ours &= p.is_cpu and p.is_floating_point()
                ours &= p.grad is None or not p.grad.is_sparse
        if not ours:
            return super().step(closure)
        with torch.no_grad():
            for group in self.param_groups:
                if params := [p for p in group["params"] if p.grad is not None]:
                    grads = [p.grad for p in params]
                    up = group["maximize"]
                    self._move(group, params, torch._foreach_neg(grads) if up else grads)
        return None

    def _move(self, group: Group, params: Several, grads: Several) -> None:
        """The step of one group; ``grads`` are not changed."""
        raise NotImplementedError


class SGD(_Own, optim.SGD):
    """`torch.optim.SGD`, see there.

        g = G + weight_decay w
        b' = momentum b + (1 - dampening) g    (b' = g in the first step)
        w' = w - lr b'                         (Nesterov: w' = w - lr (g + momentum b'))

    Here G is the gradient (minus the gradient with ``maximize``). Without a momentum b' = g.

    Example:
        >>> w = torch.nn.Parameter(torch.ones(2))
        >>> w.grad = torch.tensor([1.0, 2.0])
        >>> SGD([w], lr=0.5).step()
        >>> w.data
        tensor([0.5000, 0.0000])
    """

    def _move(self, group: Group, params: Several, grads: Several) -> None:
        if group["weight_decay"] != 0:
            grads = torch._foreach_add(grads, params, alpha=group["weight_decay"])
        if (momentum := group["momentum"]) != 0:
            buffers = [self.state[p].get("momentum_buffer") for p in params]
            if continued := [(b, g) for b, g in zip(buffers, grads, strict=True) if b is not None]:
                before, added = zip(*continued, strict=True)
                torch._foreach_mul_(before, momentum)
                torch._foreach_add_(before, added, alpha=1 - group["dampening"])
            # The momentum of each parameter begins as its first gradient.
            sums = [g.clone() if b is None else b for b, g in zip(buffers, grads, strict=True)]
            for p, buffer in zip(params, sums, strict=True):
                self.state[p]["momentum_buffer"] = buffer
            nesterov = group["nesterov"]
            grads = torch._foreach_add(grads, sums, alpha=momentum) if nesterov else sums
        torch._foreach_add_(params, grads, alpha=-group["lr"])


class _Moments(_Own):
    """The step of Adam and of AdamW."""

    def _move(self, group: Group, params: Several, grads: Several) -> None:
        lr, decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        in_float64 = torch.get_default_dtype() == torch.float64
        states: list[dict[str, Tensor]] = [self.state[p] for p in params]
        for p, state in zip(params, states, strict=True):
            if not state:  # nothing is remembered of it yet
                state["step"] = torch.tensor(
                    0.0, dtype=torch.float64 if in_float64 else torch.float32
                )
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                if group["amsgrad"]:
                    state["max_exp_avg_sq"] = torch.zeros_like(p)
        means, squares = [k["exp_avg"] for k in states], [k["exp_avg_sq"] for k in states]
        torch._foreach_add_([k["step"] for k in states], 1)
        if decay != 0 and group.get("decoupled_weight_decay", isinstance(self, optim.AdamW)):
            torch._foreach_mul_(params, 1 - lr * decay)
        elif decay != 0:
            grads = torch._foreach_add(grads, params, alpha=decay)
        torch._foreach_lerp_(means, grads, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, grads, grads, value=1 - beta2)
        if group["amsgrad"]:
            largest = [k["max_exp_avg_sq"] for k in states]
            torch._foreach_maximum_(largest, squares)
            squares = largest
        done = [k["step"].item() for k in states]
        scale = torch._foreach_sqrt(squares)
        torch._foreach_div_(scale, [(1 - beta2**n) ** 0.5 for n in done])
        torch._foreach_add_(scale, group["eps"])
        torch._foreach_addcdiv_(params, means, scale, [-(lr / (1 - beta1**n)) for n in done])


class Adam(_Moments, optim.Adam):
    """`torch.optim.Adam`, see there.

        m' = beta1 m + (1 - beta1) g,  v' = beta2 v + (1 - beta2) g^2,  g = G + weight_decay w
        w' = w - lr m' / (1 - beta1^t) / (sqrt(v' / (1 - beta2^t)) + eps)

    Here G is the gradient (minus the gradient with ``maximize``), t = 1, 2, ... the step, and m and
    v begin as zero. With ``amsgrad`` the second line has the largest v' so far in the place of v'.

    Source: Kingma & Ba 2014 (Adam), Algorithm 1, without a weight decay.
    """


class AdamW(_Moments, optim.AdamW):
    """`torch.optim.AdamW`, see there.

        w' = (1 - lr weight_decay) w - lr m' / (1 - beta1^t) / (sqrt(v' / (1 - beta2^t)) + eps)

    Here m', v' and t are as in ``Adam``, with g the gradient alone.

    Source: Loshchilov & Hutter 2019 (Decoupled weight decay regularization), Algorithm 2, whose
    weight decay is not multiplied with the learning rate.
    """

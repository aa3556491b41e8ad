"""Floating-point operations of one local iteration, counted while one real batch is trained."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fedsim.federation.draws import untouched
from fedsim.federation.trainer import Trainer
from fedsim.ground.errors import UsageError
from fedsim.network.spec import NetworkSpec
from fedsim.tasks.pytrees import forward, to_device

_PRODUCTS = re.compile(
    r"_*(conv(?!ert)\w*|\w*convolution\w*|slow_conv\w*|\w*attention\w*|(sparse_)?(add)?b?addb?mm\w*"
    r"|\w*mm|(add)?mv|v?dot|addr|ger|outer|inner|kron|(mkldnn_)?linear(_backward)?|bilinear"
    r"|trilinear|einsum|tensordot|matmul|\w*rnn\w*|\w*lstm\w*|\w*gru\w*|fft_\w+"
    r"|linalg_(?!vector_norm|diagonal)\w+|cdist\w*|cholesky\w*)_?"
)
"""Names of PyTorch's operators whose work is more than a few operations per entry."""
_PLAIN = ("aten", "prim", "prims", "profiler")
"""Where PyTorch's own operators are; of others nobody knows what they do."""


def is_heavy(namespace: str, name: str) -> bool:
    """Whether an operator without a rule may do more than a few operations per entry.

    Example:
        >>> is_heavy("aten", "mkldnn_rnn_layer"), is_heavy("mine", "step"), is_heavy("aten", "relu")
        (True, True, False)
    """
    return namespace not in _PLAIN or _PRODUCTS.fullmatch(name) is not None


class FlopCount(TorchDispatchMode):
    """Counts by the rules of ``torch.utils.flop_counter`` what its context computes.

    ``FlopCounterMode`` counts the same, and sets hooks for all modules of the process.

    Attributes:
        flops: a multiplication with an addition counts as two.
        unknown: heavy operators without a rule, by name, and how often each was called.

    Example:
        >>> with FlopCount() as count:
        ...     _ = torch.ones(2, 3) @ torch.ones(3, 4)
        >>> count.flops
        48
    """

    def __init__(self) -> None:
        from torch.utils.flop_counter import flop_registry  # which imports Triton

        super().__init__()
        self.flops, self.unknown, self._rules = 0, Counter[str](), flop_registry

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Computes an operator, and counts it."""
        named, packet = kwargs or {}, func._overloadpacket
        rule: Callable[..., int] | None = self._rules.get(packet)
        if rule is None and func is not torch.ops.prim.device.default:
            with self:
                result = func.decompose(*args, **named)
            if result is not NotImplemented:
                return result
        out = func(*args, **named)
        if rule is not None:
            self.flops += rule(*args, **named, out_val=out)
        elif is_heavy(func.namespace, packet.__name__):
            self.unknown[f"{func.namespace}.{packet.__name__}"] += 1
        return out


def iteration_flops(trainer: Trainer) -> float:
    """Floating-point operations of one local iteration: forward and backward of one batch.

    The batch is the first samples of the training data, as many as a batch of the run has.
    Operators without a rule that do a few operations per entry (activations, sums, norms,
    pooling, the optimizer's step) count as none.

    Raises:
        UsageError: an operator that does more has no rule.

    Example:
        >>> from fedsim import RunConfig
        >>> from fedsim.federation.clientdata import ClientData
        >>> config = RunConfig(task="digits")
        >>> iteration_flops(Trainer(config, ClientData.of(config))) > 1e6
        True
    """
    count, size, data = FlopCount(), trainer.plan.batch_size, trainer.data
    with untouched(trainer.device), trainer.precision, count:
        trainer.model.train()
        index = torch.arange(min(size, data.train_count))
        x, y = data.batch(index, torch.Generator().manual_seed(0))
        x, y = to_device(x, trainer.device, trainer.layout), to_device(y, trainer.device)
        trainer.backward(trainer.task.loss(forward(trainer.model, x), y))
    trainer.buffers.load({})
    if count.unknown:
        raise UsageError(
            f"--network: the FLOPs of task {trainer.task.name} are not known: nobody has a rule "
            f"for {', '.join(sorted(count.unknown))}; give the network the number of one local "
            "iteration, such as flops=0.3GFLOP"
        )
    if not count.flops:
        raise UsageError(
            f"--network: task {trainer.task.name} has no operator that is counted; give the "
            "network the FLOPs of one local iteration, such as flops=1MFLOP"
        )
    return float(count.flops)


def count_flops(network: NetworkSpec | None, trainer: Trainer) -> NetworkSpec | None:
    """The network with the FLOPs of the trainer's task, where it goes by them and has none."""
    if network is None or not network.lacks_flops:
        return network
    return replace(network, flops=iteration_flops(trainer))

"""A model's buffers: tensors that are not parameters and change in training.

Mostly they are BatchNorm's running mean and variance. ``--buffers`` sets how they travel:

* ``mean``: clients send theirs with every update, the server sends their mean with every model.
* ``local``: each client keeps its own from round to round and sends them only in rounds after
  which the server evaluates (the last among them); nothing goes down. Training itself never reads
  running statistics, so that only evaluation has a use for them. To a server that does not wait
  clients send theirs with every update.

Either way they are float32, raw, in a payload of their own, and counted (``up_buffer_bits``).
Buffers that cannot be averaged (BatchNorm's count of batches) or are not part of a model's state
dict never travel: each client keeps its own, and the server the initial ones.
"""

from collections.abc import Callable

import torch
from torch import nn

from compressors import State
from fedsim.federation.orders import Fixed
from fedsim.ground.errors import UsageError
from fedsim.settings.config import RunConfig
from strategies.channel.buffers import Buffers


class ModelBuffers:
    """The buffers of one model, and those among them that travel (``names``).

    Raises ``UsageError`` for floats of another type than float32, which no message carries.

    Example:
        >>> ModelBuffers(nn.BatchNorm1d(3), "mine").names
        ('running_mean', 'running_var')
    """

    def __init__(self, model: nn.Module, task: str) -> None:
        self._model = model
        self._initial = {name: x.detach().clone() for name, x in model.named_buffers()}
        stored = model.state_dict(keep_vars=True)
        moving = [n for n, x in self._initial.items() if n in stored and x.is_floating_point()]
        for name in moving:
            if self._initial[name].dtype != torch.float32:
                raise UsageError(
                    f"task {task}: buffer {name!r} is {self._initial[name].dtype}; buffers that "
                    "travel are float32"
                )
        self.names = tuple(moving)
        self.initial = {name: self._initial[name].cpu() for name in moving}

    def load(self, values: State) -> None:
        """Sets the model's buffers to ``values``, and those not among them to the initial ones."""
        with torch.no_grad():
            for name, x in self._model.named_buffers():
                x.copy_(values.get(name, self._initial[name]))

    def copy(self) -> State:
        """The model's buffers as they are now."""
        return {name: x.detach().clone() for name, x in self._model.named_buffers()}


def server_buffers(
    config: RunConfig, buffers: ModelBuffers, evaluates: Callable[[int], bool] | None = None
) -> Buffers | None:
    """The server's end of a run; None for a model without buffers that travel.

    ``evaluates``: whether the server evaluates after a round; None: as the plan says.
    """
    if not buffers.names:
        return None
    if config.training.buffers == "mean":
        return Buffers(buffers.initial)
    if config.plan.algorithm.clock != "rounds":  # in which row an update comes, nobody knows
        return Buffers(buffers.initial, down=False)
    evaluates = evaluates or Fixed(config).evaluates
    return Buffers(buffers.initial, down=False, up=evaluates)

"""A parameter server in parts, one at every worker: Aji & Heafield's asynchronous SGD."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from compressors import Compressor, State, Tensors
from strategies.algorithms.base import RoundInfo, Step, Uplinks
from strategies.algorithms.gradients import Make, ServerOptimizer
from strategies.algorithms.requirements import (
    no_controller,
    no_server_links,
    one_batch,
    server_momentum,
    simulated_time,
)
from strategies.channel.parts import ModelParts


@dataclass(frozen=True)
class Sharded(ServerOptimizer):
    """Each of N workers holds 1/N of the parameters, and serves it to all.

        w_j' = w_j - eta factor(t) g_j    (SGD; else the step of ``optimizer``)

    Here w_j is part j of the model, g_j that part of the decoded gradient of one batch of one
    worker, at the parts as the worker pulled them last, eta the optimizer's learning rate, and t
    the number of the round.

    Whoever holds a part makes a step of its optimizer with every gradient at once
    (``strategies.server.sharded``).

    Args:
        optimizer: makes an optimizer of the model's parameters. A part's has the groups of that
            one, and in them what the part holds of each parameter, flat.
        factor: as ``ServerOptimizer``; a round of a run is a cohort of pushes.
        unused: as ``ServerOptimizer``.

    Source: Aji & Heafield 2017 (gradient dropping), sections 3 and 4.
    """

    clock = "shards"
    requires = (no_controller, one_batch, server_momentum, simulated_time, no_server_links)
    refuses_buffers = "belong to no part of the model"

    def parts(self, clients: int) -> int:
        return clients

    def default_downlink(self, uplink: Compressor) -> Compressor:
        """Pulls are compressed as pushes are (Aji & Heafield 2017, section 4)."""
        return uplink

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        ((_, uplink),) = uplinks.items()
        return self.move(uplink.update, state, model, info)


def of_part(make: Make, parts: ModelParts, place: int, pieces: list[Parameter]) -> Optimizer:
    """The optimizer that ``make`` makes of a whole model, over the ``pieces`` of one part."""
    parameters = {name: Parameter(x) for name, x in parts.template.items()}
    optimizer, spans = make([*parameters.values()]), parts.spans[place]
    piece = {id(parameters[name]): p for name, p in zip(spans, pieces, strict=True)}
    for group in optimizer.param_groups:
        group["params"] = [piece[id(p)] for p in group["params"] if id(p) in piece]
    begun = {p: optimizer.state.pop(p) for p in parameters.values() if p in optimizer.state}
    for name, span in spans.items():  # such as the sums with which Adagrad begins
        p = parameters[name]
        for key, x in begun.get(p, {}).items():
            entries = isinstance(x, Tensor) and x.shape == p.shape
            optimizer.state[piece[id(p)]][key] = x.reshape(-1)[span].clone() if entries else x
    return optimizer

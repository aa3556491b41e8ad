"""A model of two numbers that every client pulls half-way to a target of its own.

One step of gradient descent, learning rate 1/2, on ``(w - target)**2 / 2``: all numbers
stay dyadic fractions, so float32 is exact and a run can be followed by hand.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from compressors import Compressor, Raw
from fedsim.engines.local import LocalGrid
from strategies import answer_partition, client_mod

Targets = Sequence[tuple[float, float]]


def record(values: Sequence[float]) -> ArrayRecord:
    """A model of one tensor ``w``."""
    return ArrayRecord({"w": Array(np.array(values, np.float32))})


def vector(tensors: Mapping[str, Tensor]) -> list[float]:
    """The numbers of ``w``."""
    return tensors["w"].tolist()


def client_of(context: Context) -> int:
    """Flower's partition."""
    return int(context.node_config["partition-id"])


class Pull:
    """An ordinary Flower client app (arrays in, arrays out) that writes down what it saw."""

    def __init__(
        self, targets: Targets, fails: Callable[[int, int], bool] = lambda client, call: False
    ) -> None:
        self.targets, self.fails = targets, fails
        self.seen: dict[int, list[list[float]]] = {i: [] for i in range(len(targets))}

    def train(self, message: Message, context: Context) -> Message:
        """Half-way to the target; ``num-examples`` is the client's number plus one."""
        client = client_of(context)
        arrays = next(iter(message.content.array_records.values()))
        w = arrays["w"].numpy()
        self.seen[client].append(w.tolist())
        if self.fails(client, len(self.seen[client])):
            raise RuntimeError(f"client {client} is out of order")
        target = np.array(self.targets[client], np.float32)
        content = RecordDict(
            {
                "arrays": ArrayRecord({"w": Array(w + (target - w) / 2)}),
                "metrics": MetricRecord({"num-examples": client + 1, "train-loss": float(client)}),
            }
        )
        return Message(content, reply_to=message)


def plain_app(pull: Pull) -> ClientApp:
    """The client app as in Flower's quickstarts."""
    app = ClientApp()
    app.train()(pull.train)
    return app


def modded_app(pull: Pull, up: Compressor, down: Compressor | None = None) -> ClientApp:
    """The same app behind ``client_mod``."""
    app = ClientApp(mods=[client_mod(up, down or Raw(), record([9.0, 9.0]))])
    app.train()(pull.train)
    answer_partition(app)
    return app


def grid_of(app: ClientApp, clients: int) -> LocalGrid:
    """An in-process grid."""
    return LocalGrid(app, clients)


def tensor(*values: float) -> dict[str, Tensor]:
    """``w`` as the compressors take it."""
    return {"w": torch.tensor(values)}

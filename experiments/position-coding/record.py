"""Where real updates send: the positions of SBC and top-k messages while models learn.

    python experiments/position-coding/record.py --out patterns.npz --data DIR

Trains each model once for every setting with residuals and momentum masking, and keeps the
positions that clients 0 and 1 send at 10, 50 and 90 % of the run. ``load`` reads the file again.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from compressors import Compressor, compress, derive, parse
from experiments.common.models import CHAR_LSTM256, FASHION_MLP
from fedsim.federation import Batches, build_model, mask_momentum
from fedsim.tasks import Task, get_task, split

TASKS = {
    "digits": get_task("digits"),
    "mnist_lenet5": get_task("mnist_lenet5"),
    "fashion_lenet5": get_task("fashion_lenet5"),
    "fashion_mlp": FASHION_MLP,
    "char_lstm256": CHAR_LSTM256,
    "char_lstm": get_task("char_lstm"),
    "cifar_resnet20": get_task("cifar_resnet20"),
}
SCALES = {"smoke": (20, 8), "short": (200, 32), "paper": (1000, 64)}
"""Local iterations per client, and samples per client and iteration."""
CLIENTS = 4
OWN = {"cifar_resnet20": (0.5, 2, 64), "char_lstm": (5, CLIENTS, 5)}
"""The factor of iterations, the clients and the most samples of a model that is not trained as
the others: a step of ResNet-20 takes ten of LeNet5's; `char_lstm` has its published batch, and
learns nothing from so few samples in 200 iterations."""
KEPT = (0, 1)
"""Clients whose positions are kept."""
MOMENTS = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Setting:
    """A method and how many local iterations a client does between messages."""

    name: str
    method: str
    temporal: int


SETTINGS = (
    Setting("sbc-0.01-n10", "sbc(0.01)", 10),
    Setting("sbc-0.01-n1", "sbc(0.01)", 1),
    Setting("sbc-0.001-n10", "sbc(0.001)", 10),
    Setting("sbc-0.001-n1", "sbc(0.001)", 1),
    Setting("topk-0.01-n10", "gradient_dropping(0.01)", 10),
    Setting("topk-0.001-n1", "gradient_dropping(0.001)", 1),
)


@dataclass(frozen=True)
class Pattern:
    """Sorted positions (k,) that one message sent of one tensor of ``n`` entries."""

    model: str
    setting: str
    client: int
    moment: float
    tensor: str
    shape: tuple[int, ...]
    positions: np.ndarray

    @property
    def n(self) -> int:
        """Entries of the tensor."""
        return int(np.prod(self.shape))


class Client:
    """One client of a plain synchronous federation: data, optimizer and residual of its own."""

    def __init__(self, task: Task, model: nn.Module, shard: np.ndarray, size: int, number: int):
        self.task, self.model = task, model
        self.batches = Batches(shard, size, 0, number)
        self.optimizer = task.optimizer(model.parameters())
        self.names = dict(model.named_parameters())
        self.memory, self.done, self.number = None, 0, number
        self.noise = torch.Generator()

    def step(self, weights: dict[str, Tensor], steps: int, method: Compressor, data):
        """Trains, compresses; what was sent, as the receiver will see it."""
        with torch.no_grad():
            for name, p in self.names.items():
                p.copy_(weights[name])
        for iteration in range(self.done, self.done + steps):
            index = self.batches.at(iteration)
            x, y = data.batch(index, self.noise.manual_seed(self._seed("step", iteration)))
            loss = self.task.loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.done += steps
        update = {n: (p.detach() - weights[n]).contiguous() for n, p in self.names.items()}
        packet, self.memory = compress(method, update, self.memory, self._seed("uplink", self.done))
        held = {
            f"{kind}/{name}": value
            for name, p in self.names.items()
            for kind, value in self.optimizer.state[p].items()
            if isinstance(value, Tensor)
        }
        # Momentum is set to zero where an entry was sent (SBC, supplement A).
        for key, value in mask_momentum(held, packet.sent).items():
            kind, name = key.split("/", 1)
            self.optimizer.state[self.names[name]][kind] = value
        return packet.sent, float(loss.detach())

    def _seed(self, purpose: str, iteration: int) -> int:
        return derive(0, purpose, self.number, iteration)


def record(model: str, setting: Setting, scale: str, data: Path | None) -> Iterator[Pattern]:
    """The patterns of one run; its training loss goes to stderr."""
    task, (iterations, size) = TASKS[model], SCALES[scale]
    factor, count, most = OWN.get(model, (1, CLIENTS, size))
    iterations, size = round(factor * iterations), min(size, most)
    samples = task.load(data, False)
    shards = split(np.zeros(len(samples.train_y), np.int64), count, "iid", 0)
    clients = [
        Client(task, build_model(task, 0, samples), shard, size, number)
        for number, shard in enumerate(shards)
    ]
    method = parse(setting.method)
    weights = {n: p.detach().clone() for n, p in clients[0].names.items()}
    rounds = max(1, iterations // setting.temporal)
    moments = {max(1, round(share * rounds)): share for share in MOMENTS}
    for number in range(1, rounds + 1):
        replies = [client.step(weights, setting.temporal, method, samples) for client in clients]
        for name, x in weights.items():
            weights[name] = x + sum(sent[name].decoded for sent, _ in replies) / count
        if number in moments:
            loss = sum(loss for _, loss in replies) / count
            print(f"{model} {setting.name} round {number} loss {loss:.4f}", file=sys.stderr)
            for client in KEPT:
                for name, sent in replies[client][0].items():
                    where = sent.indices.numpy().astype(np.int64)
                    shape, moment = tuple(sent.shape), moments[number]
                    yield Pattern(model, setting.name, client, moment, name, shape, where)


def save(patterns: list[Pattern], path: Path) -> None:
    """A row per pattern in columns of equal length, and all gaps (position minus the one before,
    the first counted from -1) in one uint32 array, ``count`` of them a row."""
    gaps = [np.diff(p.positions, prepend=-1) for p in patterns]
    np.savez_compressed(
        path,
        model=np.array([p.model for p in patterns]),
        setting=np.array([p.setting for p in patterns]),
        client=np.array([p.client for p in patterns]),
        moment=np.array([p.moment for p in patterns]),
        tensor=np.array([p.tensor for p in patterns]),
        shape=np.array(["x".join(map(str, p.shape)) for p in patterns]),
        count=np.array([p.positions.size for p in patterns]),
        gaps=np.concatenate(gaps).astype(np.uint32),
    )


def load(path: Path) -> list[Pattern]:
    """What ``save`` stored."""
    with np.load(path) as columns:
        stored = {name: columns[name] for name in columns.files}
    gaps = np.split(stored["gaps"].astype(np.int64), np.cumsum(stored["count"])[:-1])
    shapes = [tuple(map(int, shape.split("x"))) for shape in stored["shape"]]
    names = ("model", "setting", "client", "moment", "tensor")
    rows = zip(*(stored[name].tolist() for name in names), shapes, gaps, strict=True)
    return [Pattern(*fields, gap.cumsum() - 1) for *fields, gap in rows]


def main(scale: str, models: list[str], out: Path, data: Path | None) -> None:
    """Records every setting of ``models`` and writes them to ``out``."""
    torch.set_num_threads(1)
    patterns: list[Pattern] = []
    for model in models:
        for setting in SETTINGS:
            patterns += record(model, setting, scale, data)
        save(patterns, out)  # after every model: a run that is cut short keeps what it has


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=SCALES, default="short")
    parser.add_argument("--models", default=",".join(TASKS), help="names, by commas")
    parser.add_argument("--out", type=Path, default=Path("patterns.npz"))
    parser.add_argument("--data", type=Path, help="folder with data sets; default: $FEDSIM_DATA")
    flags = parser.parse_args()
    main(flags.scale, flags.models.split(","), flags.out, flags.data)

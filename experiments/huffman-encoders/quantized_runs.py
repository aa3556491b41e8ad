"""Real training runs with quantized gradients.

A run is Algorithm 1 of Gajjala et al. 2020: clients send quantized gradients at the same
weights, the server averages what it decodes and takes a step of plain SGD. At 10, 50 and 90 %
of a run the symbols of client 0's message are kept.
"""

import math
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from compressors import State, compress, derive, parse
from experiments.common.models import CHAR_LSTM256, WordLSTM
from fedsim.federation import Batches, build_model
from fedsim.tasks import Data, Task, dropouts, get_task, reseed

from .quantized_messages import LIFTS, QUANTIZERS, Recorded, Recording, progress, tapped

CLIENTS = 4
MOMENTS = (0.1, 0.5, 0.9)
TRAINED = "flat"  # what clients send; each tensor by itself is recorded beside it
BASELINE = "baseline"


@dataclass(frozen=True)
class Benchmark:
    """A task as it is trained here: by SGD with a constant learning rate.

    ``lr_tq`` is that of ternary quantization, which the paper tunes by itself; ``epochs`` and
    ``batch_size`` (samples per client) are those of the scale ``paper``. A client's gradient is
    multiplied by ``steps``, where the task's rate is meant for a sum over so many symbols, and
    clipped to the norm ``clip``. ``few`` samples per client where the other scales have more.
    """

    task: Task
    lr: float
    lr_tq: float
    epochs: int = 70
    batch_size: int = 160
    steps: int = 1
    clip: float = math.inf
    few: int = 32

    def plan(self, scale: str, samples: int) -> tuple[int, int]:
        """Iterations, and samples per client and iteration."""
        if scale != "paper":
            iterations, size = SCALES[scale]
            return iterations, min(size, self.few)
        return math.ceil(self.epochs * samples / (CLIENTS * self.batch_size)), self.batch_size


SCALES = {"smoke": (10, 8), "short": (300, 32)}
"""Iterations, and samples per client and iteration, of the scales that are not the paper's."""


BENCHMARKS = {
    "digits": Benchmark(get_task("digits"), 0.2, 0.02),
    "mnist_lenet5": Benchmark(get_task("mnist_lenet5"), 0.1, 0.02),
    "fashion_lenet5": Benchmark(get_task("fashion_lenet5"), 0.1, 0.02),
    "cifar_resnet20": Benchmark(get_task("cifar_resnet20"), 0.5, 0.02),
    "cifar_vgg16": Benchmark(get_task("cifar_vgg16"), 0.05, 0.002, few=16),
    "char_lstm256": Benchmark(CHAR_LSTM256, 8, 1.0, epochs=30, batch_size=20),
    "char_lstm": Benchmark(
        get_task("char_lstm"), 1.0, 0.05, 30, batch_size=20, steps=35, clip=5.0, few=5
    ),
}
"""A row per model; another task is one more row. A sample of ``char_lstm`` has 35 symbols."""
SIDE = 224
"""Pixels of a side of the images of ImageNet's models."""


def enlarged(name: str) -> nn.Module:
    """A model of torchvision for ImageNet, whose images are enlarged to 224 x 224.

    GoogLeNet has neither auxiliary classifiers nor weights in its batch normalization: so it has
    the parameters of Table 2.
    """
    from torchvision import models  # which the tests install, and users of CIFAR-10

    if name == "resnet50":
        return nn.Sequential(nn.Upsample(SIDE, mode="bilinear"), models.resnet50())
    model = models.googlenet(aux_logits=False, init_weights=True)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.weight = layer.bias = None
    return nn.Sequential(nn.Upsample(SIDE, mode="bilinear"), model)


def of_imagenet(name: str) -> Task:
    """A model of ImageNet on CIFAR-10's images, which are at hand; they have 10 of its classes."""
    return replace(get_task("cifar_vgg16"), name=name, build=partial(enlarged, name))


GRADIENTS = {
    "resnet20": get_task("cifar_resnet20"),
    "vgg16": get_task("cifar_vgg16"),
    "googlenet": of_imagenet("googlenet"),
    "resnet50": of_imagenet("resnet50"),
    "lstm1500": replace(
        get_task("word_lstm"), name="lstm1500", build=partial(WordLSTM, units=1500, scale=0.04)
    ),
}
"""Models of Table 1 at their full size."""


class Run:
    """One run: ``quantizer`` is a name of ``QUANTIZERS`` or ``baseline``."""

    def __init__(self, benchmark: Benchmark, quantizer: str, scale: str, data: Data) -> None:
        self.task, self.data, self.quantizer = benchmark.task, data, quantizer
        self.lr = benchmark.lr_tq if quantizer == "TQ" else benchmark.lr
        self.steps, self.clip = benchmark.steps, benchmark.clip
        self.iterations, size = benchmark.plan(scale, len(data.train_x))
        self.layout = torch.channels_last if self.task.channels_last else torch.contiguous_format
        self.model = build_model(self.task, 0, data).to(memory_format=self.layout)
        self.weights = dict(self.model.named_parameters())
        order = np.random.default_rng(0).permutation(len(data.train_x))
        self.batches = [
            Batches(shard, size, 0, number)
            for number, shard in enumerate(np.array_split(order, CLIENTS))
        ]
        self.states: list[State | None] = [None] * CLIENTS
        self.dropouts, self.noise = dropouts(self.model), torch.Generator()

    def train(self) -> tuple[float, list[Recording]]:
        """Trains; the score on held-out samples (the task's metric), and what was recorded."""
        plain = self.quantizer == BASELINE
        method = parse("raw" if plain else QUANTIZERS[self.quantizer].method(TRAINED, "fixed"))
        moments = {max(1, round(share * self.iterations)) - 1: share for share in MOMENTS}
        title = f"{self.task.name}, {self.quantizer}"
        recordings: list[Recording] = []
        for number in progress(range(self.iterations), title):
            gradients = [self.gradient(client, number) for client in range(CLIENTS)]
            if not plain and number in moments:
                seed = derive(0, "uplink", 0, number)
                coded = (moments[number], gradients[0], self.states[0], seed)
                recordings += [tapped(self.quantizer, lift, *coded) for lift in LIFTS]
            with torch.no_grad():
                for client, gradient in enumerate(gradients):
                    seed = derive(0, "uplink", client, number)
                    memory = self.states[client]
                    packet, self.states[client] = compress(method, gradient, memory, seed)
                    for name, sent in packet.sent.items():
                        self.weights[name].sub_(sent.decoded, alpha=self.lr / CLIENTS)
        total, data, size = 0.0, self.data, self.task.evaluation_batch
        self.model.eval()
        with torch.no_grad():
            for start in range(0, len(data.test_x), size):
                x, y = data.test_x[start : start + size], data.test_y[start : start + size]
                total += float(self.task.metric(self.model(self._laid_out(x)), y))
        score = self.task.reported(total / len(data.test_x))
        print(f"{title}: {self.task.metric_name} {score:.4f}", file=sys.stderr)
        return score, recordings

    def gradient(self, client: int, number: int) -> dict[str, Tensor]:
        """What ``client`` has to send in iteration ``number``, multiplied and clipped."""
        seed = derive(0, "step", client, number)
        reseed(self.dropouts, seed)
        x, y = self.data.batch(self.batches[client].at(number), self.noise.manual_seed(seed))
        loss = self.steps * self.task.loss(self.model(self._laid_out(x)), y)
        gradient = torch.autograd.grad(loss, list(self.weights.values()))
        factor = min(1.0, self.clip / (float(get_total_norm(gradient)) + 1e-6))
        return {n: factor * g.contiguous() for n, g in zip(self.weights, gradient, strict=True)}

    def _laid_out(self, x: Tensor) -> Tensor:
        return x.contiguous(memory_format=self.layout) if x.dim() == 4 else x


def load(name: str, data: Path | None) -> Data:
    """The samples of the benchmark ``name``; raises ``DataError`` where they are not there."""
    return BENCHMARKS[name].task.load(data, False)


def first_gradient(name: str, data: Path | None) -> Recording:
    """RD's symbols for a gradient at the first weights of a model of Table 1: one batch of 32."""
    torch.set_num_threads(1)
    task = GRADIENTS[name]
    run = Run(Benchmark(task, 0.0, 0.0), "RD", "short", task.load(data, False))
    return tapped("RD", "flat", 0.0, run.gradient(0, 0), None, derive(0, "uplink", 0, 0))


def trivial(task: Task, data: Data) -> float:
    """The score of the frequencies of the training targets: a guess that sees no input."""
    counts = torch.bincount(data.train_y.flatten(), minlength=int(data.test_y.max()) + 1)
    guess = (counts / counts.sum()).log().clamp(min=-30)
    total, size = 0.0, task.evaluation_batch
    for y in data.test_y.split(size):
        total += float(task.metric(guess.expand(*y.shape, -1), y))
    return task.reported(total / len(data.test_y))


def record(name: str, scale: str, data: Path | None) -> Recorded:
    """The baseline and a run with each quantizer of the benchmark ``name``."""
    torch.set_num_threads(1)
    benchmark = BENCHMARKS[name]
    samples = load(name, data)
    scores: dict[str, float] = {}
    recordings: list[Recording] = []
    for quantizer in (BASELINE, *QUANTIZERS):
        scores[quantizer], some = Run(benchmark, quantizer, scale, samples).train()
        recordings += some
    iterations, size = benchmark.plan(scale, len(samples.train_x))
    facts: dict[str, Any] = {
        "title": benchmark.task.title,
        "metric": benchmark.task.metric_name,
        "trivial": trivial(benchmark.task, samples),
        "iterations": iterations,
        "batch_size": size,
        "lr": benchmark.lr,
        "lr_tq": benchmark.lr_tq,
        "data": samples.source,
    }
    return Recorded(scores, facts, recordings)

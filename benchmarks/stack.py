"""What `--stack` gains: K clients trained at once, beside the same clients one after the other.

    python benchmarks/stack.py [--clients 4 16 64] [--repeats 5] [--device cpu] [--out FILE]

Random images of MNIST's or the digits' shape, batch 32, SGD with momentum, 3 local iterations from
one model. The updates of both ways are compared before anything is timed. Both ways take turns in
one process, and what is printed are medians of ratios: on a CPU of the thread's processor time, so
that what else the machine does weighs little; on a GPU of time until it is done.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.optim import SGD

from fedsim import TASKS, Data, Machine, RunConfig
from fedsim.federation.clientdata import ClientData
from fedsim.federation.device import products
from fedsim.federation.stackable import Fit, fit_of
from fedsim.federation.stacks import Stack
from fedsim.federation.trainer import Trainer
from fedsim.tasks.digits import build_digits_cnn as digits_cnn
from fedsim.tasks.lenet import MNIST_LENET5, LeNet5
from strategies import TrainJob, TrainResult

STEPS = 3


@dataclass(frozen=True)
class Model:
    """What is trained, on images (channels, side, side)."""

    name: str
    build: Callable[[], nn.Module]
    side: int = 28
    channels: int = 1


def dense(*widths: int, inputs: int = 784) -> nn.Module:
    """Linear layers to 10 classes."""
    sizes = (inputs, *widths, 10)
    layers: list[nn.Module] = [nn.Flatten()]
    for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:], strict=False)):
        layers += [nn.ReLU()] * bool(i) + [nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


MODELS = (
    Model("logistic regression", dense),
    Model("two dense layers, width 32", partial(dense, 32)),
    Model("two dense layers, width 64", partial(dense, 64)),
    Model("two dense layers, width 256", partial(dense, 256)),
    Model("three hidden layers of 512", partial(dense, 512, 512, 512)),
    Model("digits CNN", digits_cnn, 8),
    Model("LeNet5", LeNet5),
)


def random_data(clients: int, side: int, channels: int) -> Data:
    """32 samples per client."""
    n = 32 * clients
    x = torch.randn(n, channels, side, side, generator=torch.Generator().manual_seed(0))
    return Data(x, torch.arange(n) % 10, x[:32], torch.arange(32) % 10, "random images")


def made(model: Model, clients: int, device: str) -> tuple[Trainer, Stack, list[TrainJob]]:
    """A trainer, its stack of all ``clients``, and their first round."""
    task = replace(
        MNIST_LENET5,
        name=f"stack-{len(TASKS)}",
        build=model.build,
        batch_size=32,
        load=lambda folder, download: random_data(clients, model.side, model.channels),
        optimizer=lambda parameters: SGD(parameters, lr=0.01, momentum=0.9),
        channels_last=model.name in ("digits CNN", "LeNet5", "ResNet-20"),
    )
    TASKS[task.name] = task
    config = RunConfig(
        task=task.name,
        method="raw",
        clients=clients,
        machine=Machine(device=device, stack=str(clients)),
    )
    trainer = Trainer(config, ClientData.of(config))
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    fit: Fit = fit_of(config)
    jobs = [TrainJob(client, weights, {}, 0, STEPS, {}, 0) for client in range(clients)]
    return trainer, Stack(trainer, fit), jobs


def agree(first: Sequence[Any], other: Sequence[Any]) -> None:
    """Raises ``SystemExit`` unless both ways gave the same updates."""
    for a, b in zip(first, other, strict=True):
        if not isinstance(b, TrainResult):
            raise SystemExit(f"a client of the stack failed: {b}")
        for name, x in a.update.items():
            if float((x - b.update[name]).norm()) > 1e-2 * float(x.norm()):
                raise SystemExit(f"{name} differs by more than a hundredth")


def ratio(
    model: Model, clients: int, device: str, repeats: int, steps: int = STEPS
) -> tuple[float, int]:
    """How many times faster the stack is in rounds of so many ``steps``, and the model's entries.

    The updates of three steps are compared: more would let last bits grow.
    """
    trainer, stack, jobs = made(model, clients, device)
    first, jobs = jobs, [TrainJob(**{**job._asdict(), "iterations": steps}) for job in jobs]

    def alone(jobs: list[TrainJob]) -> list[TrainResult]:
        return [trainer.train(*job) for job in jobs]

    with products(tf32=False):
        agree(alone(first), stack.train(first))
    ratios = []
    for _ in range(repeats):
        seconds = timed(lambda: alone(jobs), device)
        ratios.append(seconds / timed(lambda: stack.train(jobs), device))
    return median(ratios), sum(p.numel() for p in trainer.parameters.values())


def timed(work: Callable[[], Any], device: str) -> float:
    """Seconds: on a CPU of the thread's processor time, else until the device is done."""
    clock = time.thread_time if device == "cpu" else time.perf_counter
    start = clock()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return clock() - start


def where(device: str) -> str:
    """The machine, in words."""
    if device != "cpu":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    name = next((x.split(": ")[1] for x in lines if x.startswith("model name")), "a CPU")
    return f"{name}, one thread of {os.cpu_count()} cores"


def report(clients: Sequence[int], device: str, repeats: int) -> Iterator[str]:
    """Lines of the table, as they are measured."""
    head = "| model | entries | " + " | ".join(f"{k} clients" for k in clients) + " |"
    yield (
        f"{where(device)}, torch {torch.__version__}; medians of {repeats}, in turns; load "
        f"average {os.getloadavg()[0]:.1f}."
    )
    yield from ("", head, "| --- | ---: |" + " ---: |" * len(clients))
    for model in MODELS:
        rows = [ratio(model, k, device, repeats) for k in clients]
        times = " | ".join(f"{gain:.1f}" for gain, _ in rows)
        yield f"| {model.name} | {rows[0][1]} | {times} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="a file for the table")
    given = parser.parse_args(arguments)
    if min(*given.clients, given.repeats + 1) < 2:
        parser.error("--clients is at least 2 and --repeats at least 1")
    torch.set_num_threads(1)
    lines = []
    for line in report(given.clients, given.device, given.repeats):
        lines.append(line)
        print(line, flush=True)
    if given.out:
        given.out.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()

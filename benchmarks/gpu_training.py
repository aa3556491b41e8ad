"""Rounds of training on a GPU: fedsim beside a loop, captured and not, `vmap` and JAX.

    python benchmarks/gpu_training.py [--device cuda] [--repeats 5] [--out FILE]

A part of ``benchmarks/gpu.py``, which prints it: ``make gpu``. Random images, batch 32, 10 local
steps, SGD. The peers send nothing; fedsim's rounds encode, decode and count every message. Then,
for every built-in task, whether clients that train together end with the bits of one after the
other: on the data that come with fedsim (digits), else on random samples of the task's shape.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from gpu_peers import Case, peers
from targets import Target
from torch import nn
from torch.optim import SGD

from fedsim import TASKS, Data, RunConfig, Task, run
from fedsim.federation.branches import Branches
from fedsim.federation.clientdata import ClientData
from fedsim.federation.device import products
from fedsim.federation.recorder import StepRecorder
from fedsim.federation.trainer import Trainer
from fedsim.federation.trial import trial_difference
from fedsim.tasks.data.images import CropAndFlip, Pixels
from fedsim.tasks.mnist import MNIST_LENET5, LeNet5
from fedsim.tasks.models.cifar import resnet
from fedsim.tasks.tasklist import LISTED
from strategies import TrainJob

METHOD = "sbc(0.01)"

Written = Callable[[list[str], list[Target]], None]
"""Takes the lines of a table so far, and its goals."""


def grouped_resnet20() -> nn.Module:
    """ResNet-20 with GroupNorm in the place of BatchNorm, which ``vmap`` and peers can do."""
    model = resnet(20)
    for module in [*model.modules()]:
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.GroupNorm(8, child.num_features))
    return model


CASES = {
    "LeNet5, 10 clients": (Case("LeNet5", LeNet5, 28, 1, 10), 20.0),
    "LeNet5, 64 clients": (Case("LeNet5", LeNet5, 28, 1, 64), 80.0),
    "ResNet-20, 10 clients": (Case("ResNet-20", grouped_resnet20, 32, 3, 10), 100.0),
    "ResNet-20, 10 clients, crops and flips": (
        Case("ResNet-20", grouped_resnet20, 32, 3, 10, augmented=True),
        110.0,
    ),
}
"""Each with the milliseconds that were asked for a round with messages on an H200."""


def pixels(count: int, side: int = 32, channels: int = 3) -> Data:
    """Random images in bytes, cropped and flipped."""
    generator = torch.Generator().manual_seed(0)
    shape = count, channels, side, side
    stored = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
    scale = (0.5,) * channels
    x, y = Pixels(stored, scale, scale), torch.arange(count) % 10
    return Data(x, y, x, y, "random images", draw=CropAndFlip(x, y))


def images(count: int, side: int, channels: int) -> Data:
    """Random images."""
    x = torch.randn(count, channels, side, side, generator=torch.Generator().manual_seed(0))
    y = torch.arange(count) % 10
    return Data(x, y, x[:32], y[:32], "random images")


def tokens(count: int, length: int, symbols: int) -> Data:
    """Random windows of a text."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(symbols, (count, length + 1), generator=generator)
    x[0, 0] = symbols - 1
    labels = torch.arange(count) % 2
    return Data(x[:, :-1], x[:, 1:], x[:2, :-1], x[:2, 1:], "random text", labels=labels)


def pairs(count: int) -> Data:
    """Random users and items, and whether they met."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(100, (count, 2), generator=generator)
    y = (torch.arange(count) % 2).float()
    return Data(x, y, x[:4].view(2, 2, 2), y[:4].view(2, 2), "random pairs", labels=x[:, 0] % 2)


def of_random_data(task: Task, batch: int = 8) -> Task:
    """A built-in task with batches of random samples of its shape."""
    count = 8 * batch
    makers: dict[str, Callable[[], Data]] = {
        "mnist": partial(images, count, 28, 1),
        "fashion": partial(images, count, 28, 1),
        "cifar": partial(pixels, count),
        "imagenet": partial(images, count, 224, 3),
        "char_lstm": partial(tokens, count, 35, 84),
        "char_transformer": partial(tokens, count, 64, 97),
        "word": partial(tokens, count, 35, 1000),
        "ncf": partial(pairs, count),
    }
    make = next(maker for start, maker in makers.items() if task.name.startswith(start))
    loaded = make()
    return replace(
        task,
        name=f"{task.name}-random",
        load=lambda folder, download: loaded,
        batch_size=batch,
        partition="iid",
        clients=2,
    )


def equal_bits(
    device: str,
    recorder: StepRecorder | None = None,
    batch: int = 8,
    names: Sequence[str] | None = None,
    left: Callable[[], float] = lambda: 1e9,
    written: Written = lambda lines, goals: None,
) -> list[str]:
    """A row for every built-in task: whether two clients train together with the bits of one.

    ``names``: of the tasks; None: all. ``left`` and ``written``: see ``rounds``.
    """
    lines = ["| task | clients that train together |", "| --- | --- |"]
    for name in names or LISTED:
        if left() < 0:
            break
        task = TASKS[name]
        try:
            tried = task if name == "digits" else of_random_data(task, batch)
            base = {"method": "raw", "temporal": 5, "clients": 2, "device": device}
            reason = trial_difference(RunConfig.of(task=tried, **base), recorder)
            outcome = f"no: {reason}" if reason else "equal bits"
        except Exception as error:
            outcome = f"failed: {type(error).__name__}: {error}".splitlines()[0]
        lines.append(f"| {name} | {outcome} |")
        print(lines[-1], flush=True)
        written(lines, [])
    return lines


def task_of(case: Case) -> Task:
    """fedsim's task of a case, on random images."""
    count = case.clients * case.batch
    load = pixels if case.augmented else partial(images, side=case.side, channels=case.channels)
    data = load(count)
    name = f"gpu-{len(TASKS)}"
    TASKS[name] = replace(
        MNIST_LENET5,
        name=name,
        build=case.build,
        load=lambda folder, download: data,
        optimizer=lambda parameters: SGD(parameters, lr=case.lr),
        batch_size=case.batch,
        clients=case.clients,
    )
    return TASKS[name]


def training_alone(case: Case, device: torch.device, together: bool) -> Callable[[], Any]:
    """A round's training by fedsim, without messages; ``together`` or one after the other."""
    task = task_of(case)
    config = RunConfig.of(task=task.name, method="raw", temporal=case.steps, device=str(device))
    trainer = Trainer(config, ClientData.of(config))
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    jobs = [TrainJob(c, weights, {}, 0, case.steps, {}, 0) for c in range(case.clients)]
    branches = Branches(trainer, case.clients)

    def one_by_one() -> list[Any]:
        return [trainer.train(*job) for job in jobs]

    return (lambda: branches.train(jobs)) if together else one_by_one


def round_ms(case: Case, device: torch.device, rounds: int, **settings: Any) -> float:
    """The median milliseconds of a round of ``fedsim.run``; its first rounds do not count."""
    instants = [time.perf_counter()]
    config = RunConfig.of(
        task=task_of(case).name,
        temporal=case.steps,
        iterations=case.steps * (rounds + 3),
        evaluate_every=rounds + 3,
        device=str(device),
        **settings,
    )
    run(config, callbacks=[lambda row: instants.append(time.perf_counter())], progress=False)
    spent = [1e3 * (b - a) for a, b in zip(instants, instants[1:], strict=False)]
    return median(spent[3:-1] or spent)


def milliseconds(work: Callable[[], Any], device: torch.device, repeats: int) -> float:
    """The median until the device is done; two calls before do not count."""
    spent = []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        spent.append(1e3 * (time.perf_counter() - start))
    return median(spent[2:])


def rows_of(case: Case, device: torch.device, repeats: int) -> dict[str, float | str]:
    """Milliseconds of a round by whose it is, or why it could not be had."""
    works: dict[str, Callable[[], float]] = {}
    for name, make in peers(case, device).items():
        works[name] = lambda make=make: milliseconds(make(), device, repeats)
    for name, together in (("one after the other", False), ("together", True)):
        works[f"fedsim, training alone, {name}"] = lambda together=together: milliseconds(
            training_alone(case, device, together), device, repeats
        )
    for method in ("raw", METHOD):
        works[f"fedsim, `{method}`"] = lambda method=method: round_ms(
            case, device, repeats, method=method
        )
    works[f"fedsim, `{METHOD}`, `--stack 1`"] = lambda: round_ms(
        case, device, repeats, method=METHOD, stack="1"
    )
    results: dict[str, float | str] = {}
    for name, work in works.items():
        try:
            with products(False, device):
                results[name] = work()
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}".splitlines()[0][:80]
        print(f"{name}: {results[name]}", flush=True)
    return results


def rounds(
    device: str,
    repeats: int,
    cases: dict[str, tuple[Case, float]] = CASES,
    left: Callable[[], float] = lambda: 1e9,
    written: Written = lambda lines, goals: None,
) -> tuple[list[str], list[Target]]:
    """The table of rounds, a column for each case, and the targets of training.

    ``left``: the seconds that there are; a case that would begin with fewer than 20 is left out.
    ``written``: is called with both after each case.
    """
    place = torch.device(device)
    measured: dict[str, dict[str, float | str]] = {}
    lines, goals = list[str](), list[Target]()
    for name, (case, bound) in cases.items():
        if left() < 20:
            continue
        print(f"{name} ...", flush=True)
        measured[name] = rows_of(case, place, repeats)
        value = measured[name][f"fedsim, `{METHOD}`"]
        if isinstance(value, float):
            goals.append(Target(f"round, {name}, {METHOD}, default settings", value, bound, "ms"))
            alone = measured[name]["fedsim, training alone, together"]
            if isinstance(alone, float):
                what = f"round, {name}: with messages over without"
                goals.append(Target(what, value / alone, _share(case)))
        lines = [f"| a round, ms | {' | '.join(measured)} |", f"| --- |{' ---: |' * len(measured)}"]
        for row in dict.fromkeys(row for column in measured.values() for row in column):
            values = [column.get(row, "") for column in measured.values()]
            texts = [f"{x:.1f}" if isinstance(x, float) else x for x in values]
            lines.append(f"| {row} | {' | '.join(texts)} |")
        written(lines, goals)
    return lines, goals


def _share(case: Case) -> float:
    """How many times as long a round with messages may take."""
    return 1.25 if case.name != "LeNet5" else 2.2 if case.clients < 64 else 1.8


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a file for the tables")
    values = parser.parse_args(arguments)
    if values.repeats < 1:
        parser.error("--repeats is at least 1")
    if values.device.startswith("cuda") and not torch.cuda.is_available():
        print("There is no GPU here: torch finds none. Nothing was run.")
        return 1
    lines, goals = rounds(values.device, values.repeats)
    lines += ["", *equal_bits(values.device)]
    text = "\n".join([*lines, "", *(goal.line() for goal in goals), ""])
    print(text)
    if values.out:
        values.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""What `--stack` gains in a sweep: the seeds of a cell trained together, beside one by one.

    python benchmarks/cells.py [--seeds 10] [--temporal 1 10] [--iterations 40] [--repeats 3]

Sweeps of four clients with `sbc(0.01)` and without a dense cell, one process and one thread. Both
ways take turns, and what is printed are medians of ratios of the process's processor time, from
the first cell's start to the last file. Metrics of both ways are compared before anything is told.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import torch
from stack import dense, random_data, where
from torch import nn

from fedsim import TASKS, RunConfig, SweepConfig, Task
from fedsim.runs.sweep import run_cells
from fedsim.settings.grids import seeds_of
from fedsim.tasks.digits import DIGITS
from fedsim.tasks.lenet import MNIST_LENET5

CLIENTS = 4


def of_digits(*widths: int) -> nn.Module:
    """Linear layers from the digits' 64 inputs to 10 classes."""
    return dense(*widths, inputs=64)


def of_images(build: Callable[[], nn.Module]) -> Task:
    """LeNet5's task with another model, on random images."""
    return replace(
        MNIST_LENET5,
        build=build,
        load=lambda folder, download: random_data(32 * CLIENTS, 28, 1),
        batch_size=32,
    )


MODELS: dict[str, Task] = {
    "digits, logistic regression": replace(DIGITS, build=of_digits),
    "digits, a dense layer of 64": replace(DIGITS, build=partial(of_digits, 64)),
    "images, logistic regression": of_images(dense),
    "images, a dense layer of 256": of_images(partial(dense, 256)),
}
"""Convolutions are not among them: no other run joins their stacks (benchmarks/stack.py)."""


def swept(grid: SweepConfig, stack: int) -> tuple[float, list[float]]:
    """Processor time of a sweep, and the last loss of each cell."""
    grid = replace(grid, base=grid.base.but(stack=str(stack)))
    with tempfile.TemporaryDirectory() as out:
        start = time.process_time()
        rows = run_cells(grid.cells(), Path(out), progress=False)
        spent = time.process_time() - start
    if any(row["status"] != "done" for row in rows):
        raise SystemExit(f"a cell failed: {[row['error'] for row in rows]}")
    return spent, [row["loss"] for row in rows]


def ratios(grid: SweepConfig, repeats: int) -> tuple[float, float, float]:
    """Seconds one by one and together, and the median of the ratios."""
    clients = CLIENTS * len(seeds_of(grid.seeds))
    one, together = partial(swept, grid, 1), partial(swept, grid, clients)
    for a, b in zip(one()[1], together()[1], strict=True):
        if abs(a - b) > 0.05 * abs(a) + 0.01:
            raise SystemExit(f"losses {a} one by one and {b} together")
    alone, stacked = [], []
    for _ in range(repeats):
        alone.append(one()[0])
        stacked.append(together()[0])
    gains = [a / b for a, b in zip(alone, stacked, strict=True)]
    return median(alone), median(stacked), median(gains)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--temporal", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=[*MODELS], choices=[*MODELS])
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(
        f"{where('cpu')}, torch {torch.__version__}; {given.seeds} seeds, {given.iterations} "
        f"iterations, medians of {given.repeats}, in turns; load average "
        f"{os.getloadavg()[0]:.1f}.\n"
    )
    print("| model | n | one by one, s | together, s | times faster |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in given.models:
        task = replace(MODELS[name], name=f"cells-{len(TASKS)}")
        TASKS[task.name] = task
        for n in given.temporal:
            base = RunConfig.of(
                task=task.name,
                method="sbc",
                gradient=0.01,
                clients=CLIENTS,
                iterations=given.iterations,
            )
            grid = SweepConfig(base, (n,), (0.01,), given.seeds, baseline=False)
            alone, together, gain = ratios(grid, given.repeats)
            print(f"| {name} | {n} | {alone:.2f} | {together:.2f} | {gain:.2f} |", flush=True)


if __name__ == "__main__":
    main()

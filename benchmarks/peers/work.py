"""The work that every simulator is given, and how it is asked for a round of it.

A folder holds the images, the first weights of LeNet5, who takes part in which round and which
samples make each batch, all of it drawn by fedsim (``../compare.py``). Only numpy and torch are
needed, so that every peer's environment can read it.
"""

import json
import os
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

LR = 0.01


@dataclass(frozen=True)
class Work:
    """What is trained, as one folder says it.

    Args:
        folder: with ``x.npy`` (samples, 1, 28, 28), ``y.npy``, ``batches.npy`` (rounds, cohort,
            iterations, batch), ``cohorts.npy`` (rounds, cohort), ``start.npz`` and ``clients.txt``.
    """

    folder: Path

    def array(self, name: str) -> np.ndarray:
        """One of the files; it is read when it is looked at, and all processes share it."""
        return np.load(self.folder / f"{name}.npy", mmap_mode="c")

    @cached_property
    def data(self) -> tuple[Tensor, Tensor]:
        """All images and their labels."""
        return torch.from_numpy(self.array("x")), torch.from_numpy(self.array("y"))

    @cached_property
    def batches(self) -> Tensor:
        """Numbers of samples, (rounds, cohort, iterations, batch)."""
        return torch.from_numpy(self.array("batches"))

    @cached_property
    def cohorts(self) -> list[list[int]]:
        """The clients of every round."""
        listed: list[list[int]] = self.array("cohorts").tolist()
        return listed

    @property
    def clients(self) -> int:
        """Of the whole federation."""
        return int((self.folder / "clients.txt").read_text())

    @cached_property
    def start(self) -> list[Tensor]:
        """The first weights, layer by layer: weight and bias of each."""
        with np.load(self.folder / "start.npz") as arrays:
            return [torch.from_numpy(arrays[name]) for name in arrays]

    def samples(self, round_number: int, slot: int) -> tuple[Tensor, Tensor]:
        """What one client of a round (0, 1, ...) sees, batch after batch in one tensor each."""
        x, y = self.data
        index = self.batches[round_number, slot].flatten()
        return x[index], y[index]

    def model(self, pool_first: bool = False) -> nn.Sequential:
        """LeNet5 with the first weights; ReLU before pooling, as everyone writes it."""

        def squeezed() -> list[nn.Module]:
            pair: list[nn.Module] = [nn.ReLU(), nn.MaxPool2d(2)]
            return pair[::-1] if pool_first else pair

        made = nn.Sequential(
            nn.Conv2d(1, 20, 5),
            *squeezed(),
            nn.Conv2d(20, 50, 5),
            *squeezed(),
            nn.Flatten(),
            nn.Linear(800, 500),
            nn.ReLU(),
            nn.Linear(500, 10),
        )
        with torch.no_grad():
            for p, w in zip(made.parameters(), self.start, strict=True):
                p.copy_(w)
        return made


class Turns:
    """The other end of ``../compare.py``: a line asks for a round, a line of JSON answers it.

    What the simulator prints goes to standard error, for standard output is for answers. The
    command line is FOLDER PROCESSES.
    """

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.work, self.processes = Work(Path(sys.argv[1])), int(sys.argv[2])
        self._answers = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)

    @property
    def rounds(self) -> int:
        """The most that can be asked for."""
        return len(self.work.cohorts)

    def wait(self) -> None:
        """Until the next round is asked for; ends this process where none will be."""
        if not sys.stdin.readline():
            os._exit(0)  # whatever threads and processes of the simulator still wait

    def done(self, loss: float) -> None:
        """Answers with the mean training loss of the round."""
        print(json.dumps({"loss": loss}), file=self._answers)

"""Small runs, and what is to be the same between two of them."""

import shutil
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from compressors import State
from fedsim import TASKS, Data, RunConfig, Task, run
from fedsim.federation import isolation
from fedsim.federation.client_memory import InProcess
from fedsim.tasks.base import correct, cross_entropy

run_module = import_module("fedsim.runs.run")
_numbers = count()


def small(**settings: Any) -> RunConfig:
    """A run of four rounds on the digits, a fifth of a second."""
    given = {"method": "sbc(0.05)", "temporal": 5, "iterations": 20} | settings
    return RunConfig.of(**given)


def rounds(folder: Path) -> pd.DataFrame:
    """``rounds.parquet`` without its times."""
    frame = pd.read_parquet(folder / "rounds.parquet")
    return frame.drop(columns=[c for c in frame.columns if c.endswith("seconds")])


def clients(folder: Path) -> pd.DataFrame:
    """``clients.parquet``."""
    return pd.read_parquet(folder / "clients.parquet")


OWN = ("seconds", "engine", "files", "held", "held_norm")
"""Of a summary, what differs from engine to engine: only here are clients' memories at hand."""


def layers(folder: Path) -> pd.DataFrame:
    """``layers.parquet``; empty where no entries travel."""
    file = folder / "layers.parquet"
    return pd.read_parquet(file) if file.exists() else pd.DataFrame()


def model(folder: Path) -> bytes:
    """``model.safetensors``."""
    return (folder / "model.safetensors").read_bytes()


def payloads(folder: Path) -> dict[str, bytes]:
    """Every stored message by its path under ``payloads``."""
    base = folder / "payloads"
    return {str(f.relative_to(base)): f.read_bytes() for f in base.rglob("*") if f.is_file()}


def assert_same(one: Path, other: Path) -> None:
    """Equal metrics, bits, weights, and messages where they were kept: bit for bit."""
    pd.testing.assert_frame_equal(rounds(one), rounds(other), check_exact=True)
    pd.testing.assert_frame_equal(clients(one), clients(other), check_exact=True)
    pd.testing.assert_frame_equal(layers(one), layers(other), check_exact=True)
    assert model(one) == model(other)
    assert payloads(one) == payloads(other)


def parts(folder: Path) -> list[Path]:
    """What a kill left behind."""
    return list(folder.rglob(".*.part"))


class Memories:
    """The clients' memory of every run that a test makes, and a copy of it after each round."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.states = InProcess()
        self.rounds: list[dict[int, State]] = []
        monkeypatch.setattr(run_module.storage, "states_of", lambda _: self.states)

    def __call__(self, row: dict[str, Any]) -> None:
        """To be given as ``progress``."""
        copy = {c: {k: x.clone() for k, x in s.items()} for c, s in self.states.copy().items()}
        self.rounds.append(copy)


def _data(samples: int = 60) -> Data:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(samples, 6, generator=generator)
    y = (x[:, :3] + 0.1 * torch.randn(samples, 3, generator=generator)).argmax(dim=1)
    return Data(x[:48], y[:48], x[48:], y[48:], "made up")


@pytest.fixture
def make_task(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Registers a task of 36 + 15 weights under a new name: plans and data are cached by name."""

    def make(**fields: Any) -> Task:
        name = f"tiny{next(_numbers)}"
        standard: dict[str, Any] = {
            "build": lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)),
            "load": lambda folder, download: _data(),
            "optimizer": lambda parameters: SGD(parameters, lr=0.1, momentum=0.9),
            "batch_size": 4,
            "iterations": 12,
            "channels_last": False,
            "clients": 3,
            "loss": cross_entropy,
            "metric": correct,
        }
        task = Task(name=name, title="", source="", **(standard | fields))
        monkeypatch.setitem(TASKS, name, task)
        return task

    yield make


@pytest.fixture
def not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every training is one of a run: no client trains before, to see what reaches others."""
    monkeypatch.setattr(isolation, "check_isolation", lambda config: None)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one finished run of ``small()``; to be looked at."""
    out = tmp_path_factory.mktemp("finished")
    run(small(keep_payloads=True), out)
    return out


@pytest.fixture
def done(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    shutil.copytree(finished, tmp_path / "done")
    return tmp_path / "done"


def steps(
    task: Task, model: nn.Module, data: Data, batches: list[Tensor], optimizer: Any
) -> nn.Module:
    """The plain PyTorch loop that a client's training is compared with."""
    for index in batches:
        loss = task.loss(model(data.train_x[index]), data.train_y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def distance(model: nn.Module, weights: dict[str, Tensor]) -> float:
    """The largest difference of a weight."""
    return max(
        float((p.detach() - weights[name]).abs().max()) for name, p in model.named_parameters()
    )

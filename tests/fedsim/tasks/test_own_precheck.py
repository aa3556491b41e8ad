"""One batch of a user's own task is tried first: the field is named, and nothing is left behind."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import LBFGS, SGD

from fedsim import Data, DataError, Machine, RunConfig, SweepConfig, UsageError, run, sweep
from fedsim.federation import draws, precheck
from fedsim.tasks.base import correct
from tests.support.owntasks import MODEL, X, Y, holding
from tests.support.runs import assert_same

STRANGER = nn.Linear(2, 2)


def reading(name: str) -> dict[str, Any]:
    """The field of a task that reads a file, as the page's example does."""
    return {"load": lambda folder, download: np.loadtxt(Path(folder) / name, delimiter=",")}


def refused(make_task: Any, out: Path, fields: dict[str, Any], **settings: Any) -> str:
    """What a run and a sweep say of such a task; neither leaves anything behind."""
    task = make_task(**fields)
    config = RunConfig.of(task=task, method="sbc(0.5)", **settings)
    with pytest.raises(UsageError) as error:
        run(config, out / "run")
    grid = SweepConfig(config, temporal=(3,))
    with pytest.raises(UsageError) as again:
        sweep(grid, out / "sweep")
    assert str(again.value) == str(error.value)
    assert not list(out.iterdir())
    return str(error.value).replace(task.name, "mine")


def mean(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs.argmax(dim=1) == targets).float().mean()


class Failing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")


class Drawing(nn.Module):
    """A layer that draws from every generator when it is used, and from torch's when it is made."""

    def __init__(self, first: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.rand(3, 6) + first)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = random.random() + np.random.random() + float(torch.rand(()))
        return x @ self.weight.T + 1e-3 * noise


CLASSES = "; cross entropy takes int64 class numbers of shape (n,)"
REFUSED: dict[str, dict[str, Any]] = {
    "expected target dtype to be Long or Byte, but got Float; train_x": holding(y=Y.float()),
    "train_y is int32 (48,)" + CLASSES: holding(y=Y.int()),
    "train_y is int64 (48, 1)" + CLASSES: holding(y=Y[:, None]),
    "test_y is float32": {"load": lambda *_: Data(X, Y, X, Y.float(), "")},
    "test_y holds the classes 1 to 3, and build's model": {
        "load": lambda *_: Data(X, Y, X, Y + 1, "")
    },
    "train_y holds the classes 1": holding(y=Y + 1)
    | {"loss": lambda out, y: F.cross_entropy(out, y)},
    "train_y holds the classes 0 to 2, and build's model has 2": {"build": lambda: nn.Linear(6, 2)},
    "build made two models of one seed whose 'weight' differ": {
        "build": lambda: Drawing(np.random.random())
    },
    "one seed whose 'weight' differ": {"build": lambda: Drawing(random.random())},
    "fails on a batch: ValueError: no (": {
        "build": lambda: nn.Sequential(Failing(), nn.Linear(6, 3))
    },
    "train_x is float64 (48, 6), train_y is int64 (48,); most models": holding(X.double()),
    "train_x is float32 (48, 5), train_y is": holding(X[:, :5]),
    "a batch of train_y is": holding(draw=lambda i, g: (X[i], Y[i].float())),
    "load: a batch of its data fails: ": holding(draw=lambda i, g: X[i + 99]),
    "loss is NaN on a first batch; train_x is float32 (48, 6)": holding(X / 0 - X / 0),
    "build returned NoneType; it returns a torch.nn.Module": {"build": lambda: None},
    "build returned the same model twice; it makes a new one": {"build": lambda: MODEL},
    "build fails: TypeError: ": {"build": lambda: nn.Linear(6, "3")},
    "build made a model without parameters to train": {"build": nn.Identity},
    "'weight' is float64; parameters are float32": {"build": lambda: nn.Linear(6, 3).double()},
    "optimizer returned NoneType; it returns a torch.optim.Optimizer": {
        "optimizer": lambda p: None
    },
    "of other parameters": {"optimizer": lambda p: SGD(STRANGER.parameters(), lr=0.1)},
    "optimizer(parameters) fails": {"optimizer": lambda p: SGD(p, lr=-1)},
    "optimizer: its step() fails: TypeError: ": {"optimizer": LBFGS},
    "loss returned a tensor of shape (4": {"loss": partial(F.cross_entropy, reduction="none")},
    "for 12 samples and ": {"loss": partial(F.cross_entropy, reduction="sum")},
    "loss returned CrossEntropyLoss;": {"loss": lambda out, y: nn.CrossEntropyLoss()},
    "number without a gradient": {"loss": lambda out, y: F.cross_entropy(out.detach(), y)},
    "metric is 0.5 for 12 samples and 0.5 for the same samples twice; it returns the sum": {
        "metric": mean
    },
    "metric returned a tensor of shape (12": {"metric": lambda out, y: out.argmax(dim=1) == y},
    "outputs are (12, 1) and targets (12,)": holding(y=X[:, 0])
    | {
        "build": lambda: nn.Linear(6, 1),
        "loss": lambda out, y: (out[:, 0] - y).square().mean(),
        "metric": lambda out, y: (out - y).square().sum(),
    },
    "for samples in another order, too: outputs are (12, 1)": holding(y=X[:, 0])
    | {
        "build": lambda: nn.Linear(6, 1),
        "loss": lambda out, y: (out - y).square().mean(),
        "metric": lambda out, y: (out[:, 0] - y).square().sum(),
    },
    "a sample's target has the shape (2,)": holding(y=torch.stack([Y, Y], 1))
    | {
        "build": lambda: nn.Sequential(nn.Linear(6, 6), nn.Unflatten(1, (3, 2))),
        "metric": correct,
    },
    "metric's 'share' is 0.5 for 12 samples and 0.5 for the same": {
        "metric": lambda out, y: {"right": (out.argmax(1) == y).sum(), "share": mean(out, y)}
    },
    "what metric returned fails: ValueError": {"reported": lambda mean: f"{mean:.1%}"},
    "what metric returned fails: TypeError": {"reported": lambda mean: None},
    "metric(model(x), y) fails on": {"metric": lambda out, y: (out == y).sum()},
    "load failed with folder None (none is given: --data DIR": reading("mine.csv"),
}
"""What is said of such fields."""


@pytest.mark.parametrize("words", REFUSED)
def test_a_batch_is_tried_first(
    words: str, make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    assert words in refused(make_task, tmp_path, REFUSED[words])


def test_a_file_that_is_missing(make_task: Any, tmp_path: Path) -> None:
    task = make_task(**reading("mine.csv"))
    with pytest.raises(DataError) as error:
        run(RunConfig(task=task, temporal=3, machine=Machine(data=str(tmp_path))), tmp_path / "out")
    assert str(error.value) == (
        f"task {task.name}: load failed with folder {tmp_path}: FileNotFoundError: "
        f"{tmp_path}/mine.csv not found. (test_own_precheck.py, line 26)"
    )
    assert isinstance(error.value.__cause__, FileNotFoundError)  # its traceback is kept


# ---- what must go through, and leave nothing behind


def seeded() -> None:
    for set_seed in (random.seed, np.random.seed, torch.manual_seed):
        set_seed(5)


def test_a_trial_draws_from_no_generator(make_task: Any) -> None:
    config = RunConfig(task=make_task(build=Drawing), temporal=3)
    seeded()
    precheck.check_trainable(config)
    drawn = random.random(), np.random.random(), float(torch.rand(()))
    seeded()
    assert drawn == (random.random(), np.random.random(), float(torch.rand(())))


def test_a_trial_changes_no_number(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make_task(
        build=lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Dropout(), Drawing(), nn.Linear(3, 3))
    )
    config = RunConfig(task=task, method="sbc(0.5)", temporal=3)
    seeded()
    run(config, tmp_path / "tried")
    monkeypatch.setattr(precheck, "check_trainable", lambda config: None)
    monkeypatch.setattr(draws, "_DRAWING", [])  # its steps are seen drawing anew, as before
    seeded()
    run(config, tmp_path / "untried")
    assert_same(tmp_path / "tried", tmp_path / "untried")


def test_metrics_that_are_sums(make_task: Any, tmp_path: Path) -> None:
    """Python's numbers, scores of zero and negative ones are sums too."""
    metrics: list[Any] = [
        lambda outputs, y: float((outputs.argmax(dim=1) == y).sum()),
        lambda outputs, y: 0,
        lambda outputs, y: -nn.functional.cross_entropy(outputs, y, reduction="sum"),
    ]
    for number, metric in enumerate(metrics):
        config = RunConfig(task=make_task(metric=metric), temporal=3, iterations=3)
        assert run(config, tmp_path / str(number)).summary["status"] == "done"


def test_a_reported_tensor_is_a_number(make_task: Any, tmp_path: Path) -> None:
    task = make_task(reported=lambda mean: torch.tensor(mean).exp())
    assert type(task.scores({"": 0.0}, 1)[""]) is float
    run(RunConfig(task=task, temporal=3, iterations=3), tmp_path)
    assert (tmp_path / "rounds.parquet").is_file()


def test_fedsims_own_tasks_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precheck, "_passes", None)
    precheck.check_trainable(RunConfig(task="digits"))


def test_other_data_are_tried_too(make_task: Any, tmp_path: Path) -> None:
    """In one process the samples of a second folder, or of a changed file, have another width."""
    for folder, width in (("a", 6), ("b", 5)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "width").write_text(str(width))

    def load(folder: Any, download: bool) -> Data:
        x = X[:, : int((folder / "width").read_text())]
        return Data(x[:48], Y[:48], x[48:], Y[48:], "made up")

    config = RunConfig.of(task=make_task(load=load), data=str(tmp_path / "a"), method="raw")
    precheck.check_trainable(config)
    with pytest.raises(UsageError, match="of build's model, fails on a batch"):
        precheck.check_trainable(config.but(data=str(tmp_path / "b")))
    (tmp_path / "a" / "width").write_text("5 ")
    with pytest.raises(UsageError, match="of build's model, fails on a batch"):
        precheck.check_trainable(config)

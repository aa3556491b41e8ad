"""float32 means float32 on a GPU, tf32 is a precision of its own; flags are as they were after."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fedsim import Machine, RunConfig, Training, UsageError, run
from fedsim.federation import device as room
from fedsim.federation.clientdata import ClientData
from fedsim.federation.device import products
from fedsim.federation.trainer import Trainer
from tests.support.runs import not_tried
from tests.support.together import Together

WHOLE, UPPER = ("highest", False), ("high", True)


def flags() -> Any:
    return room._flags()


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(room, "_gpu", lambda: True)
    before = flags()
    yield
    assert flags() == before


@pytest.mark.usefixtures(not_tried.__name__)
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize(("precision", "wanted"), [("float32", WHOLE), ("tf32", UPPER)])
def test_a_run_trains_and_scores_as_its_precision_says(
    precision: str,
    wanted: Any,
    width: int,
    make_task: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    together: Together,
) -> None:
    together(width)
    seen: list[Any] = []
    task = make_task()

    def loss(outputs: Any, targets: Any) -> Any:
        seen.append(flags()[0])
        return task.loss(outputs, targets)

    other = make_task(loss=loss)
    monkeypatch.setattr("fedsim.settings.checks._on_gpu", lambda config: True)
    before = flags()
    assert before[0] == ("highest", True)  # as torch begins
    config = RunConfig.of(
        task=other.name, method="raw", temporal=2, iterations=2, precision=precision
    )
    seen.clear()
    run(config, tmp_path, progress=False)
    trained = [x for x in seen if x != before[0]]  # one batch is tried before all
    assert set(trained) == {wanted}
    assert seen[-1] == wanted and flags() == before
    assert config.digest != RunConfig.of(task=other.name, method="raw").digest


def test_flags_come_back_where_a_step_fails(make_task: Any, monkeypatch: Any) -> None:
    config = RunConfig.of(task=make_task().name, method="raw")
    monkeypatch.setattr(Trainer, "step", lambda *_: 1 / 0)
    before = flags()
    trainer = Trainer(config, ClientData.of(config))
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    with pytest.raises(ZeroDivisionError):
        trainer.train(0, weights, {}, 0, 1)
    assert flags() == before


@pytest.mark.parametrize("setting", ["medium", "highest"])
def test_what_a_caller_has_set_stays(setting: str) -> None:
    begun = flags()
    torch.set_float32_matmul_precision(setting)
    if leaves := room._LEAVES:
        leaves[1].fp32_precision = "ieee"  # and torch no longer tells the older flag
    before = flags()
    for tf32 in (True, False):
        with products(tf32, torch.device("cpu")):
            assert flags()[0] == (UPPER if tf32 else WHOLE)
        assert flags() == before
    room._restore(*begun)


@pytest.mark.parametrize("setting", ["medium", "highest"])
def test_without_a_gpu_nothing_is_set_that_a_cpu_does_anyway(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = flags()
    monkeypatch.setattr(room, "_gpu", lambda: False)
    torch.set_float32_matmul_precision(setting)
    with products(False, torch.device("cpu")):
        assert flags()[0] == (begun[0] if setting == "highest" else WHOLE)
    room._restore(*begun)


def test_a_cpu_has_no_tf32() -> None:
    with pytest.raises(UsageError, match="--precision is 'tf32' and --device is 'cpu': only a GPU"):
        RunConfig(training=Training(precision="tf32"))
    config = RunConfig(training=Training(precision="tf32"), machine=Machine(device="cuda:1"))
    assert config.identity()["precision"] == "tf32"

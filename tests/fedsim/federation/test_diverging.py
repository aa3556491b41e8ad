"""Runs whose numbers stop being numbers: ended with an error that says where."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.serverapp.strategy import FedAvg

from fedsim import RunFailed, run
from fedsim.federation.trainer import Trainer
from tests.support.runs import small


def summary_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


def test_weights_that_overflow_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each update is finite and so is their mean; the sum with the model is not."""
    train = Trainer.train

    def huge(self: Trainer, *rest: Any) -> Any:
        trained = train(self, *rest)
        update = {n: torch.full_like(x, 3e38) for n, x in trained.update.items()}
        return replace(trained, update=update, loss=1.0)

    monkeypatch.setattr(Trainer, "train", huge)
    with pytest.raises(RunFailed, match=r"round 2.*'0\.weight'"):
        run(small(method="raw"), tmp_path)
    assert summary_of(tmp_path)["status"] == "failed"


def test_a_server_optimizer_that_overflows_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def infinite(self: FedAvg, server_round: int, replies: Any) -> Any:
        from strategies.channel.payload import to_arrays, to_tensors

        arrays = to_tensors(next(iter(next(iter(replies)).content.array_records.values())))
        return to_arrays({n: x / 0 for n, x in arrays.items()}), None

    monkeypatch.setattr(FedAvg, "aggregate_train", infinite)
    with pytest.raises(RunFailed, match=r"round 1.*(NaN|finite)"):
        run(small(method="raw", strategy="fedavg"), tmp_path)
    assert summary_of(tmp_path)["status"] == "failed"


def test_a_learning_rate_that_diverges(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"round 1: 0 of 4 .*client 0: .*holds NaN or infinity"):
        run(small(lr=1e30), tmp_path)

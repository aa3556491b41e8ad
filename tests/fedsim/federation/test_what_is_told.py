"""What a run's numbers are of: the last score, those who replied, each client's own noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from compressors import decompress
from fedsim import RunConfig, run
from fedsim.federation import server
from fedsim.federation.evaluation import Score
from fedsim.federation.trainer import Trainer, build_model
from tests.support.runs import clients, not_tried, payloads, rounds, small


@pytest.mark.parametrize("scores", [(0.9, 0.2, 0.7, 0.5), (0.1, 0.9, 0.3, 0.5)])
def test_the_metric_is_the_last_model_s(
    scores: tuple[float, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the best nor the worst of the run: nobody knows while training which that is."""
    told = iter(scores)
    monkeypatch.setattr(server, "evaluate", lambda *given: Score(s := next(told), 1 - s))
    summary = run(small(evaluate_every=1), tmp_path).summary
    assert rounds(tmp_path)["metric"].tolist() == list(scores)
    assert (summary["metric"], summary["loss"]) == (0.5, 0.5)


def test_every_client_and_round_draws_noise_of_its_own(tmp_path: Path) -> None:
    """Random positions that all clients shared would leave the same entries out of every mean."""
    config = small(method="randk(0.05) | float32", keep_payloads=True)
    run(config, tmp_path)
    template = {n: p.detach() for n, p in build_model(config.plan.task, 0).named_parameters()}
    chosen = {}
    for name, payload in payloads(tmp_path).items():
        if name.endswith("-up.bin"):
            update = decompress(config.plan.method.compressor, payload, template)
            largest = max(update.values(), key=torch.Tensor.numel)
            chosen[name] = frozenset(largest.flatten().nonzero().flatten().tolist())
    assert len(chosen) == len(set(chosen.values())) == 16
    shared = [len(a & b) / len(a) for a in chosen.values() for b in chosen.values() if a is not b]
    assert np.mean(shared) == pytest.approx(0.05, abs=0.02)  # as often as by chance


def failing(monkeypatch: pytest.MonkeyPatch, client: int, calls: set[int], temporal: int) -> None:
    """Lets a client fail in some of its trainings of so many iterations."""
    real, count = Trainer.train, [0]

    def train(self: Trainer, who: int, *rest: Any) -> Any:
        if who == client and self.config.temporal == temporal:
            count[0] += 1
            if count[0] in calls:
                raise MemoryError("no room")
        return real(self, who, *rest)

    monkeypatch.setattr(Trainer, "train", train)


@pytest.mark.usefixtures(not_tried.__name__)
def test_the_training_loss_is_the_mean_of_those_who_replied(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, client=1, calls={2}, temporal=3)
    run(RunConfig.of(task=make_task().name, method="raw", temporal=3, min_replies=2), tmp_path)
    frame = rounds(tmp_path)
    assert frame["clients"].tolist() == [3, 2, 3, 3]
    means = clients(tmp_path).groupby("round")["train_loss"].mean()
    np.testing.assert_allclose(frame["train_loss"], means, rtol=1e-12)

"""Steps of the learning rate go by the run's iterations, whoever takes part in a round."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.optim import SGD

from fedsim import RunConfig, run
from fedsim.federation.trainer import Trainer
from tests.support.runs import assert_same, make_task, model, not_tried

__all__ = ["make_task", "not_tried"]  # the fixtures
STEP = {"optimizer": lambda parameters: SGD(parameters, lr=0.1)}


@pytest.mark.slow
def test_a_step_comes_on_time_where_few_clients_take_part(make_task: Any, tmp_path: Path) -> None:
    """Ten clients, two a round: few of them have done 60 iterations when the run has done 200."""
    common = {"method": "raw", "temporal": 10, "clients": 10, "cohort": 2}
    weights = {}
    for name, steps in (("stepped", ((60, 0.001),)), ("plain", ())):
        task = make_task(lr_steps=steps, **STEP)
        for iterations in (60, 200):
            out = tmp_path / f"{name}-{iterations}"
            run(RunConfig.of(task=task, iterations=iterations, **common), out)
            weights[name, iterations] = load_file(out / "model.safetensors")["0.weight"]
    assert torch.equal(weights["stepped", 60], weights["plain", 60])
    moved = {n: float((weights[n, 200] - weights[n, 60]).norm()) for n in ("stepped", "plain")}
    assert moved["stepped"] < 0.01 * moved["plain"]


@pytest.mark.parametrize(
    "settings", [{"cohort": 1}, {"cohort": 2, "temporal": 3}], ids=["one of three", "two of three"]
)
def test_every_client_has_the_rate_of_the_round(
    settings: dict[str, Any], make_task: Any, tmp_path: Path
) -> None:
    """From iteration 5 the rate is 0: the model stays, to the bit, in rounds that start later."""
    task = make_task(lr_steps=((5, 0.0),), **STEP)
    common: dict[str, Any] = {"task": task, "method": "raw", "temporal": 2} | settings
    run(RunConfig.of(**common, iterations=6), tmp_path / "short")
    run(RunConfig.of(**common, iterations=12), tmp_path / "long")
    assert model(tmp_path / "short") == model(tmp_path / "long")


def test_a_client_of_every_round_trains_as_it_did(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With full participation the run's iterations and a client's are the same."""
    config = RunConfig(task=make_task(lr_steps=((3, 0.1), (7, 0.01))), method="raw", temporal=5)
    run(config, tmp_path / "run")
    real = Trainer.train

    def by_the_client(self: Trainer, *rest: Any) -> Any:
        return real(self, *rest[:6], None)

    monkeypatch.setattr(Trainer, "train", by_the_client)
    run(config, tmp_path / "client")
    assert_same(tmp_path / "run", tmp_path / "client")


@pytest.mark.usefixtures(not_tried.__name__)
@pytest.mark.parametrize("compute", ["20ms", "lognormal(20ms, 1)"], ids=["alike", "unlike"])
@pytest.mark.parametrize("strategy", ["dsgd", "fedbuff", "fedasync"])
def test_servers_that_do_not_wait_have_the_rate_of_the_row(
    strategy: str, compute: str, make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the local steps are at the low rate, however many messages a client has had."""
    trained: list[int] = []
    real = Trainer.train

    def seen(self: Trainer, *given: Any) -> Any:
        trained.extend(given[6] + i for i in range(given[4]))  # start, iterations
        return real(self, *given)

    monkeypatch.setattr(Trainer, "train", seen)
    task = make_task(lr_steps=((40, 0.1),), clients=10, **STEP)
    network = f"up=1Mbit, compute={compute}"
    run(
        RunConfig.of(
            task=task,
            method="raw",
            temporal=2,
            cohort=5,
            iterations=80,
            strategy=strategy,
            network=network,
        ),
        tmp_path,
    )
    low = sum(iteration >= 40 for iteration in trained)
    assert low / len(trained) == pytest.approx(0.5, abs=0.03)  # some begin before their row

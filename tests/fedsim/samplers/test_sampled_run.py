"""Runs with a sampler: who is asked, what that costs, and that a killed run goes on to the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from fedsim import RunConfig, RunFailed, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.evaluation import local_loss
from fedsim.federation.trainer import Trainer
from fedsim.network import parse
from fedsim.runs.verify.verify import verify
from fedsim.show.report import report
from fedsim.show.results_view import load
from fedsim.show.times import priced
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import assert_same, small

NETWORK = "up=320bit, latency=1s, compute=0s"
FIVE = {"clients": 5, "cohort": 2, "partition": "linear", "network": "up=1Mbit, compute=10ms"}


def rows(folder: Path) -> tuple[pd.DataFrame, list[list[int]]]:
    clients = pd.read_parquet(folder / "clients.parquet")
    return pd.read_parquet(folder / "rounds.parquet"), [
        sorted(own) for _, own in clients.groupby("round")["client"]
    ]


@pytest.mark.parametrize(
    "more",
    [
        {"deadline": "40ms", "late": "hold", "network": "up=1Mbit, compute=lognormal(10ms, 1)"},
        {"deadline": "40ms", "late": "count", "network": "up=1Mbit, compute=lognormal(10ms, 1)"},
        {"ask": 3, "late": "drop", "dropout": 0.2},
        {"availability": 0.7},
        {"availability": "onoff(100ms, 50ms)"},
        {"strategy": "fedasync", "availability": 0.7, "dropout": 0.2},
        {"strategy": "fedbuff(2)", "availability": "onoff(100ms, 50ms)", "deadline": "60ms"},
        {"strategy": "sharded", "temporal": 1, "iterations": 4},
        {"sampler": "power_of_choice(3, stale=true)"},
        {"sampler": "power_of_choice(2, stale=true)", "controller": "adacomm(4)"},
        {"sampler": "power_of_choice(1, stale=true)", "strategy": "fedasync"},
        {"sampler": "oort(window=1)"},
        {"sampler": "power_of_choice(4)", "downlink": "sbc(0.1)", "dropout": 0.2},
        {
            "sampler": "power_of_choice(3, batches=1)",
            "deadline": "60ms",
            "late": "hold",
            "network": "up=1Mbit, server_down=2Mbit, framing=on, compute=lognormal(10ms, 1)",
        },
        {"sampler": "power_of_choice(3)", "downlink": "relay", "strategy": "dsgd"},
        {
            "sampler": "oort",
            "deadline": "40ms",
            "late": "count",
            "availability": 0.9,
            "network": "up=1Mbit, compute=lognormal(10ms, 1)",
        },
        {"sampler": "oort", "strategy": "fedbuff(2)", "availability": "onoff(100ms, 50ms)"},
    ],
    ids=str,
)
@pytest.mark.slow
def test_every_schedule_goes_on_after_a_kill(more: dict[str, Any], tmp_path: Path) -> None:
    given = {"sampler": "weighted(samples)", "checkpoint_every": 1, "keep_payloads": True}
    config = small(**FIVE | given | more)
    run(config, tmp_path / "whole", progress=False)
    with pytest.raises(Stopped):
        run(config, tmp_path / "killed", progress=False, callbacks=[stop_after(2)])
    run(config, tmp_path / "killed", progress=False)
    assert_same(tmp_path / "whole", tmp_path / "killed")
    verdict = verify(tmp_path / "whole")
    assert not verdict.failures and "replay" in str(verdict.looked)


def test_candidates_are_sent_the_model_and_answer_a_loss(
    make_task: Callable[..., Any], tmp_path: Path
) -> None:
    """51 weights: 1,632 bits and a header. Four candidates of five, two take part.

    A candidate's loss is that of an epoch of batches at the server's model. The two with the
    highest loss are drawn. Down, each candidate has the model once: in the round, or before it.
    Time: the model and 1 s down, batches / 3 of 3 s each, 32 bits and 1 s up, then the round
    without a download of the model.
    """
    network = "up=320bit, down=640bit, latency=1s, compute=3s"
    task = make_task(clients=5)
    config = RunConfig.of(
        task=task,
        method="raw",
        cohort=2,
        temporal=1,
        iterations=3,
        network=network,
        sampler="power_of_choice(4)",
        partition="iid",
        batch_size=3,
    )
    run(config, tmp_path, progress=False)
    rounds, cohorts = rows(tmp_path)
    clients = pd.read_parquet(tmp_path / "clients.parquet")
    message = int(clients["up_wire_bits"].iloc[0])  # as long as the model
    assert rounds["up_sampler_bits"].tolist() == [5 * 32 + 4 * 32, 4 * 32, 4 * 32]
    assert rounds["down_sampler_bits"].tolist() == [0, 2 * message, 2 * message]  # free at first
    assert rounds["down_wire_bits"].tolist() == [0, 4 * message, 4 * message]
    assert (rounds["total_bits"] > rounds["up_wire_bits"] + rounds["down_wire_bits"]).all()
    batches = {len(shard) // 3 for shard in ClientData.of(config).shards}
    assert batches == {3}
    asking = [message / 640 + 1 + 3 * 3 / 3 + 32 / 320 + 1 for _ in range(3)]
    asking[0] += 1 + 32 / 320 - message / 640
    training = 1 + 3 + message / 320 + 1
    assert rounds["sim_seconds"].tolist() == pytest.approx([x + training for x in asking])
    assert not verify(tmp_path).failures


def test_a_local_loss_is_that_of_the_client_s_batches(make_task: Callable[..., Any]) -> None:
    """Two batches at the model, as torch has it; nothing of the trainer is moved by that."""
    config = RunConfig.of(task=make_task(), batch_size=4)
    trainer = Trainer(config, ClientData.of(config))
    weights = {n: p.detach() * 1.5 for n, p in trainer.parameters.items()}
    found = local_loss(trainer, weights, 1, 3, 2)
    first = 3 * trainer.batches_of(1).an_epoch
    by_hand = []
    for iteration in (first, first + 1):
        x, y = trainer.batch(1, iteration)
        hidden = (x @ weights["0.weight"].T + weights["0.bias"]).tanh()
        outputs = hidden @ weights["2.weight"].T + weights["2.bias"]
        by_hand.append(float(torch.nn.functional.cross_entropy(outputs, y)))
    assert found == pytest.approx(sum(by_hand) / 2, rel=1e-6)


def test_layers_that_clients_keep_have_no_loss_elsewhere(tmp_path: Path) -> None:
    config = small(**FIVE, strategy="fedper", sampler="power_of_choice(3)")
    with pytest.raises(UsageError, match=r"--sampler is 'power_of_choice\(3\)'.*fedper"):
        run(config, tmp_path, progress=False)


def test_a_run_that_asked_clients_has_no_price_elsewhere(tmp_path: Path) -> None:
    run(small(**FIVE | {"sampler": "weighted(samples)"}), tmp_path, progress=False)
    report(tmp_path)
    assert "Sampler: what it asked" in (tmp_path / "report.html").read_text(encoding="utf-8")
    with pytest.raises(UsageError, match=r"sampler = weighted\(samples\)"):
        priced(load(tmp_path), parse("4g, compute=10ms"))


OWN = """
from dataclasses import dataclass
from fedsim.settings.samplers import Sampler


@dataclass(frozen=True)
class Mine(Sampler):
    def draw(self, info, memory):
        return memory.get("next", [0, 1])

    def learn(self, taken, memory):
        return {"next": NEXT}
"""


def test_an_own_sampler_learns_who_was_used(tmp_path: Path) -> None:
    """Who was used says who is next: 0 and 1, then 1 and 2, 2 and 3, 3 and 4."""
    file = tmp_path / "mine.py"
    file.write_text(OWN.replace("NEXT", "[(c + 1) % 5 for c in taken]"), encoding="utf-8")
    run(small(**FIVE, sampler=f"{file}:Mine"), tmp_path / "run", progress=False)
    assert rows(tmp_path / "run")[1] == [[0, 1], [1, 2], [2, 3], [3, 4]]


@pytest.mark.parametrize(
    ("drawn", "said"),
    [("[7, 0]", "7, 0"), ("[0]", "[0]"), ("{3}", "JSON"), ("[0.0, 1.5]", "0.0, 1.5"), ("5", "5")],
)
def test_what_an_own_sampler_may_not_draw(drawn: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN.replace("NEXT", drawn), encoding="utf-8")
    with pytest.raises(RunFailed) as error:
        run(small(**FIVE, sampler=f"{file}:Mine"), tmp_path / "run", progress=False)
    assert said in str(error.value) and "Mine" in str(error.value)


def test_an_own_sampler_asks_candidates_alone(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    asks = "    needs = ('local_loss',)\n\n    def asks(self, info, memory):\n        return [7]\n"
    file.write_text(OWN.replace("NEXT", "[0, 1]") + asks, encoding="utf-8")
    with pytest.raises(RunFailed, match=r"Mine asks \[7\]"):
        run(small(**FIVE, sampler=f"{file}:Mine"), tmp_path / "run", progress=False)

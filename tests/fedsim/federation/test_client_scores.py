"""``--evaluate-clients``: each client's own test samples, and what their scores come to."""

from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fedsim import RunConfig, load, run
from fedsim.federation import clientdata, evaluation
from fedsim.federation.clientdata import ClientData
from fedsim.federation.evaluation import over_clients
from fedsim.ground.records import CLIENT_SCORES
from fedsim.show.tables import summary_texts
from fedsim.tasks import get_task

SMALL: dict[str, Any] = {
    "task": "digits",
    "method": "sbc(0.1)",
    "temporal": 2,
    "iterations": 4,
    "evaluate_every": 2,
}


@pytest.mark.parametrize(
    "partition", ["iid", "dirichlet(0.1)", "shards(2)", "contiguous", "whole", "drawn(20)"]
)
@pytest.mark.parametrize("validation", [None, 0.2])
def test_a_client_keeps_out_a_part_of_its_own_samples(
    partition: str, validation: float | None
) -> None:
    given = {"task": "digits", "clients": 6, "partition": partition, "validation": validation}
    before = ClientData.of(RunConfig.of(**given))
    after = ClientData.of(RunConfig.of(**given, evaluate_clients=0.25))
    assert before.kept_out is None and after.kept_out is not None
    assert len(after.kept_out) == len(after.shards) == 6
    for client in range(6):
        whole, trained, kept = before.shards[client], after.shards[client], after.kept_out[client]
        assert np.array_equal(np.sort(np.concatenate([trained, kept])), whole)
        assert len(kept) == max(1, round(0.25 * len(whole))) and len(trained)
        if partition != "drawn(20)":  # nobody trains on what another is scored on
            assert not any({*kept.tolist()} & {*after.shards[other].tolist()} for other in range(6))


def test_a_sample_that_is_drawn_twice_is_on_one_side() -> None:
    shards = [np.array([0, 1, 1, 1, 1, 2, 2, 3]), np.array([4, 4])]
    kept, trained = (clientdata.Parts(shards, 5, 0.5, scored) for scored in (True, False))
    assert not {*kept[0].tolist()} & {*trained[0].tolist()}
    assert np.array_equal(np.sort(np.concatenate([kept[0], trained[0]])), shards[0])
    assert len(np.unique(kept[0])) == 2 and len(kept[1]) == 0


def test_every_seed_keeps_out_the_same() -> None:
    parts = [
        ClientData.of(RunConfig.of(partition="contiguous", evaluate_clients=0.2, seed=seed))
        for seed in (0, 1)
    ]
    assert parts[0].kept_out is not None and parts[1].kept_out is not None
    assert np.array_equal(parts[0].kept_out[1], parts[1].kept_out[1])


def test_few_samples() -> None:
    shards = [np.array([4]), np.array([1, 3]), np.array([], dtype=np.int64)]
    kept, trained = (clientdata.Parts(shards, 5, 0.9, scored) for scored in (True, False))
    assert [len(x) for x in kept] == [0, 1, 0] and [len(x) for x in trained] == [1, 1, 0]
    assert [x.tolist() for x in kept[:2]] == [x.tolist() for x in [kept[0], kept[1]]]


def test_scores_are_those_of_each_client_s_samples(tmp_path: Path) -> None:
    config = RunConfig.of(**SMALL, partition="dirichlet(0.3)", clients=12, evaluate_clients=0.3)
    result = run(config, tmp_path)
    task, federation = get_task("digits"), ClientData.of(config)
    model, data = task.model(federation.data), federation.data
    model.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert federation.kept_out is not None
    with torch.no_grad():
        scores = sorted(
            float(task.metric(model.eval()(data.train_x[kept]), data.train_y[kept])) / len(kept)
            for kept in federation.kept_out
        )
    last = result.rounds.iloc[-1]
    assert last["client_metric_mean"] == pytest.approx(np.mean(scores))
    assert last.client_metric_worst == pytest.approx(scores[0])  # 12 // 10 = 1
    assert last["client_metric_spread"] == pytest.approx(np.std(scores))
    assert result.summary["client_metric_mean"] == last["client_metric_mean"]
    headings, (row,), _ = summary_texts(load(tmp_path).runs, ["metric", *CLIENT_SCORES])
    assert row[0][2] == f"{scores[0]:.4f}"


def test_rounds_that_are_not_evaluated_have_none_and_runs_without_it_no_columns() -> None:
    rounds = run(RunConfig.of(**{**SMALL, "iterations": 8}, evaluate_clients=0.1)).rounds
    assert rounds[[*CLIENT_SCORES]].notna().all(axis=1).tolist() == [False, True] * 2
    plain = run(RunConfig.of(**SMALL))
    assert not {*CLIENT_SCORES} & {*plain.rounds.columns, *plain.summary}
    assert plain.config.digest == RunConfig.of(**SMALL, evaluate_clients=None).digest


def test_the_worst_tenth() -> None:
    twenty = [i / 20 for i in range(20)]
    assert over_clients(twenty, True).client_metric_worst == pytest.approx(0.025)
    assert over_clients(twenty, False).client_metric_worst == pytest.approx(0.925)
    assert over_clients([0.75, 0.5], True).client_metric_worst == 0.5
    assert all(np.isnan(value) for value in astuple(over_clients([], True)))


def test_of_many_clients_some_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    part = clientdata.Parts.part

    def seen(self: Any, client: Any) -> Any:
        if self.scored:
            asked.append(client)
        return part(self, client)

    monkeypatch.setattr(clientdata.Parts, "part", seen)
    many = {"clients": 1_000_000, "cohort": 2, "partition": "drawn(20)", "evaluate_every": 9}
    scores = run(RunConfig.of(**SMALL | many, evaluate_clients=0.2)).summary
    assert len(asked) == evaluation.CLIENTS == len({*asked})
    assert max(asked) > 900_000 and 0 <= scores["client_metric_worst"] <= 1

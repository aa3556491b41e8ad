"""Layers that stay with clients: who trains them when, and by what a run is scored."""

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedsim import RunConfig, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer, build_model
from fedsim.runs.verify.verify import verify
from fedsim.settings.strategies import algorithm_of
from strategies import FedProx, chain
from strategies.algorithms.chain import Hooks
from strategies.algorithms.fedrep import HeadFirst
from tests.support.runs import Memories, small

HEAD = ("7.weight", "7.bias")
EACH = {"method": "raw", "temporal": 10, "iterations": 20, "clients": 3, "cohort": 2}


def accuracy(config: RunConfig, weights: Mapping[str, Tensor], samples: Any = None) -> float:
    """Of a model that is made anew, on the test set or on some of the training samples."""
    model = build_model(config.plan.task, config.seed)
    model.load_state_dict({**model.state_dict(), **weights})
    model.eval()
    data = ClientData.of(config).data
    x, y = (
        (data.test_x, data.test_y)
        if samples is None
        else (data.train_x[samples], data.train_y[samples])
    )
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def test_fedbabu_s_head_is_never_trained_and_scored_after_fine_tuning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memories = Memories(monkeypatch)
    plain, tuned = (
        run(small(**EACH, strategy=f"fedbabu(fine_tune={n})"), callbacks=[memories]) for n in (0, 5)
    )
    assert not {*HEAD} & {*plain.model}
    kept = [name for state in memories.rounds[-1].values() for name in state]
    assert kept and not any(name.startswith("rule/") for name in kept)
    assert all(torch.equal(x, tuned.model[n]) for n, x in plain.model.items()), "it is forgotten"
    config = small(**EACH, strategy="fedbabu(fine_tune=0)")
    assert plain.summary["metric"] == pytest.approx(accuracy(config, plain.model))
    trainer, scores = Trainer(config, ClientData.of(config)), []
    for client, memory in memories.rounds[-1].items():
        begun = trainer.filled(plain.model)
        update = trainer.train(client, begun, {}, int(memory["iterations"]), 5, start=20).update
        scores.append(accuracy(config, {n: begun[n] + x for n, x in update.items()}))
    assert tuned.summary["metric"] == pytest.approx(fmean(scores)) != plain.summary["metric"]


def test_a_client_s_own_part_at_the_end_of_its_bits_is_that_of_the_scored_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last round within the bits is scored when the next is over: with the heads of before."""
    settings = EACH | {"iterations": 60, "strategy": "fedper", "clients": 2, "evaluate_every": 100}
    whole = run(small(**settings | {"iterations": 30}), callbacks=[])
    bits = whole.rounds["up_wire_bits"].iloc[0] / 2
    stopped = run(small(**settings, stop_at_bits=2.9 * bits)).rounds
    every = run(small(**settings | {"iterations": 30, "evaluate_every": 1})).rounds
    scored = stopped["metric"].dropna()
    assert len(stopped) == 3 and len(scored) == 2
    assert scored.tolist() == every["metric"].iloc[-2:].tolist()


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head, self.body = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))


def graded(model: nn.Module) -> dict[str, nn.Parameter]:
    for p in model.parameters():
        p.grad = torch.ones(1)
    return dict(model.named_parameters())


def test_fedrep_trains_the_head_first_and_begins_anew_with_a_copy() -> None:
    hook, trained = HeadFirst({"body"}, 2), []
    for used in (hook, hook, hook, copy(HeadFirst({"body"}, 2))):
        named = graded(Weights())
        used(named)
        trained.append([name for name, p in named.items() if p.grad is not None])
    assert trained == [["head"], ["head"], ["body"], ["head"]]
    both = Hooks([HeadFirst({"body"}, 1), lambda parameters: None])
    copy(both)(graded(Weights()))
    assert both.hooks[0].step == 0  # type: ignore[attr-defined]


def test_fedrep_s_shared_layers_move_in_the_steps_after_the_head_s() -> None:
    """With 9 steps of 10 for the head, the message is one step of the last batch."""
    rounds = {"method": "raw", "temporal": 10, "iterations": 10, "clients": 1, "momentum": 0.0}
    config = small(**rounds, strategy="fedrep(head_steps=9)")
    shared = run(config).model
    begun = {n: p.detach() for n, p in build_model(config.plan.task, 0).named_parameters()}
    trainer = Trainer(config, ClientData.of(config))
    frozen = HeadFirst({*shared}, 9)
    head = trainer.train(0, begun, {}, 0, 9, gradient_hooks=(frozen,)).update
    assert all(not head[n].any() for n in shared) and all(head[n].any() for n in HEAD)
    fitted = {n: x + head[n] for n, x in begun.items()}
    last = trainer.train(0, fitted, {}, 9, 1).update
    assert all(torch.allclose(shared[n], begun[n] + last[n], atol=1e-6) for n in shared)


def test_with_a_pull_both_halves_work() -> None:
    half = chain(FedProx(0.1), algorithm_of("fedbabu(fine_tune=3)").client)
    assert half.fine_tuning == 3 and half.hooks_gradients


def test_a_replay_says_that_it_does_not_score(tmp_path: Path) -> None:
    run(small(method="sbc(0.1)", strategy="fedper", keep_payloads=True), tmp_path / "run")
    verdict = verify(tmp_path / "run")
    assert not verdict.failures and "scores are not compared" in str(verdict)
    assert "rounds replayed" in str(verdict)

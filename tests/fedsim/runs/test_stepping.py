"""A federation that is stepped by hand: the run's own rounds, left and gone on with anywhere."""

import multiprocessing
import pickle
from typing import Any

import pandas as pd
import pytest
import torch

from fedsim import Federation, RunConfig, RunFailed, RunState, UsageError, run
from fedsim.engines.local import LocalGrid
from fedsim.federation.trainer import _TRAINERS
from tests.fedsim.runs.test_callbacks import Diary
from tests.support.cases import cases
from tests.support.runs import small

_LINKS = "up=2Mbit, down=8Mbit, latency=30ms, compute=lognormal(20ms, 0.7)"
SETTINGS: dict[str, dict[str, Any]] = {
    "residuals": {},
    "a part of the clients, both ways coded": {
        "clients": 8, "cohort": 3, "downlink": "ef(topk(0.2) | float32 | golomb)",
        "catch_up": True, "partition": "dirichlet(0.5)",
    },
    "a server's momentum": {"strategy": "nesterov"},
    "control variates": {"strategy": "scaffold", "method": "raw", "momentum": 0.0},
    "late updates": {
        "network": "up=200kbit, compute=lognormal(50ms, 1.2)", "clients": 8, "cohort": 3,
        "deadline": "2s", "method": "topk(0.2) | float32 | golomb",
    },
    "a controller": {
        "controller": "plateau(1)", "method": "sbc", "gradient": 0.1, "temporal": 4,
        "network": _LINKS,
    },
    "processes": {"workers": 2, "method": "qsgd(7)"},
    "a buffer": {
        "strategy": "fedbuff(2)", "clients": 5, "cohort": 3, "network": f"{_LINKS}, framing=on",
        "downlink": "sbc(0.1)",
    },
    "models of before": {"strategy": "fedasync", "method": "qsgd(7)", "network": _LINKS},
    "shards": {
        "strategy": "sharded", "temporal": 1, "iterations": 6, "clients": 3,
        "method": "gradient_dropping(0.05)", "downlink": "topk(0.1) | float32 | golomb",
        "network": f"{_LINKS}, framing=on",
    },
}  # fmt: skip


def timeless(frame: pd.DataFrame) -> pd.DataFrame:
    kept = [c for c in frame.columns if not c.endswith("seconds") or "sim" in c]
    return frame[kept]


def assert_as(federation: Federation, config: RunConfig) -> None:
    """Rounds, clients, model and summary are those of the whole run."""
    whole = run(config)
    for one, other in ((federation.rounds, whole.rounds), (federation.clients, whole.clients)):
        pd.testing.assert_frame_equal(timeless(one), timeless(other), check_exact=True)
    assert federation.model.keys() == whole.model.keys()
    assert all(torch.equal(x, whole.model[name]) for name, x in federation.model.items())
    mine = federation.summary
    assert {k: v for k, v in mine.items() if k != "seconds"} == {
        k: v for k, v in whole.summary.items() if k != "seconds"
    }


QUICK = ("a buffer",)


@pytest.mark.parametrize("settings", cases(SETTINGS, quick=QUICK))
def test_by_hand_it_is_the_run_and_goes_on_from_any_round(settings: dict[str, Any]) -> None:
    config = small(**settings)
    states = []
    with Federation(config) as federation:
        while not federation.done:
            states.append(federation.state())
            row = federation.round()
            assert row["round"] == len(states) == len(federation.rounds)
    assert_as(federation, config)
    for state in (states[1], states[2], states[1]):  # one may be used again: it has not changed
        with Federation(config, pickle.loads(pickle.dumps(state))) as other:
            while not other.done:
                other.round()
        assert_as(other, config)


def test_the_model_is_a_copy_and_moves_with_the_rounds() -> None:
    with Federation(small()) as federation:
        first = federation.model
        for x in first.values():
            x.zero_()
        again = federation.model
        assert all(float(x.abs().sum()) > 0 for name, x in again.items() if x.dim() > 1)
        federation.round()
        assert any(not torch.equal(x, again[name]) for name, x in federation.model.items())
        assert federation.summary["status"] == "running" and federation.summary["rounds"] == 1


def test_callbacks_follow_it() -> None:
    diary = Diary()
    with Federation(small(evaluate_every=4), callbacks=[diary]) as federation:
        for _ in range(4):
            federation.round()
    assert diary.said == [
        ("begin", "accuracy", []),
        ("round", 1, False),
        ("round", 2, False),
        ("round", 3, False),
        ("round", 4, True),
        ("evaluation", 4),
        ("end", "done"),
    ]
    diary = Diary()
    failing = Federation(small(lr=1e30, method="raw"), callbacks=[diary])
    with failing, pytest.raises(RunFailed, match="0 of 4 clients replied"):
        failing.round()
    assert diary.said[-1] == ("end", "failed")


def test_what_cannot_be_stepped_is_told() -> None:
    with pytest.raises(UsageError, match="--engine is 'flower': a federation is stepped on the"):
        Federation(small(engine="flower"))
    with pytest.raises(UsageError, match="--keep-payloads is True: it goes to a run's folder"):
        Federation(small(keep_payloads=True))
    with pytest.raises(UsageError, match=r"Federation\(\) takes a RunConfig"):
        Federation("digits")
    with Federation(small()) as federation:
        with pytest.raises(UsageError, match="state is of a run of other settings .lr None there"):
            Federation(small(lr=0.5), federation.state())
        with pytest.raises(UsageError, match="takes a RunState, and was given 3"):
            Federation(small(), 3)
        assert isinstance(federation.state(), RunState)
        while not federation.done:
            federation.round()
        with pytest.raises(UsageError, match="the run is done after 4 rounds"):
            federation.round()


def test_what_trains_ends_with_it() -> None:
    federation = Federation(small(workers=3))
    federation.round()
    assert len(multiprocessing.active_children()) == 3
    federation.close()
    federation.close()  # again does nothing
    assert not multiprocessing.active_children()
    config = small()
    left = Federation(config)
    left.round()
    assert any(trainer.config == config for trainer in _TRAINERS)
    del left
    assert not any(trainer.config == config for trainer in _TRAINERS)


def test_two_federations_may_be_stepped_in_turns() -> None:
    with Federation(small()) as first, Federation(small(seed=1)) as second:
        for _ in range(2):
            rows = [federation.round() for federation in (first, second)]
    whole = [run(small(seed=seed), progress=False).rounds for seed in (0, 1)]
    assert [row["metric"] for row in rows] == [frame["metric"][1] for frame in whole]


def test_a_round_that_was_interrupted_is_told_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clients may have trained: to ask them again would count what they did twice."""

    def stopped(*_: Any, **_named: Any) -> Any:
        raise KeyboardInterrupt

    with Federation(small()) as federation:
        federation.round()
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(LocalGrid, "send_and_receive", stopped)
            federation.round()
        with pytest.raises(UsageError, match=r"round 2 was interrupted.* state\(\) of before"):
            federation.round()
        assert len(federation.rounds) == 1

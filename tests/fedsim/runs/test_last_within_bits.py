"""`--stop-at-bits`: where a run ends, and the last round within the bits, which is scored."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch import nn

import fedsim
from fedsim import Callback, Federation, RunConfig, run
from fedsim.ground.columns import receivers
from fedsim.runs.callbacks import CsvWriter
from fedsim.runs.trackers.base import Tracker
from fedsim.search.curves import curve_of
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import assert_same, rounds, small

LINKS = "up=lognormal(50kbit,1.5), compute=uniform(1ms,9ms)"
MARINA = {
    "strategy": "marina",
    "method": "marina(randk(0.1) | float32, 0.2)",
    "temporal": 1,
    "momentum": 0.0,
}
VARYING: dict[str, dict[str, Any]] = {
    "a dense round now and then": MARINA,
    "as many entries as are large": {"method": "ef(threshold(0.05) | float32)"},
    "a controller": {"method": "sbc", "gradient": 0.1, "controller": "delay_first(0.5, 4)"},
    "clients that drop out": {"dropout": 0.3, "budget_of": "total", "downlink": "sbc(0.3)"},
    "relayed messages": {"dropout": 0.3, "budget_of": "total", "downlink": "relay"},
    "missed rounds": {"cohort": 1, "catch_up": True, "budget_of": "total", "downlink": "sbc(0.3)"},
    "an asynchronous server": {
        "strategy": "fedbuff(2)",
        "network": LINKS,
        "downlink": "sbc(0.3)",
        "cohort": 2,
        "budget_of": "total",
    },
    "a server in parts": {
        "strategy": "sharded",
        "network": LINKS,
        "temporal": 1,
        "method": "ef(threshold(0.05) | float32)",
        "downlink": "ef(threshold(0.05) | float32)",
        "budget_of": "total",
    },
    "statistics of each client": {
        **MARINA,
        "buffers": "mean",
        "build": lambda: nn.Sequential(
            nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3)
        ),
    },
}


def config_of(make_task: Any, more: dict[str, Any]) -> fedsim.RunConfig:
    own = {name: more[name] for name in ("build",) if name in more}
    rest = {name: value for name, value in more.items() if name not in own}
    given = {"task": make_task(**own), "temporal": 2, "iterations": 24, "evaluate_every": 10}
    return small(**given | {"method": "sbc(0.1)"} | rest)


def spent(table: pd.DataFrame, of: str) -> np.ndarray:
    """A client's bits up to each round."""
    each = np.where(table["clients"] > 0, table["up_wire_bits"] / table["clients"].clip(1), 0)
    asked = receivers(table.fillna({"absent": 0, "late": 0}))
    down = np.where(asked > 0, table["down_wire_bits"] / asked.clip(1), 0)
    return np.cumsum(each + down * (of == "total"))


def budgets(bits: np.ndarray) -> list[float]:
    """In the midst of the largest message, except the first; and what rounds have sent exactly."""
    jump = int(np.argmax(np.diff(bits[2:]))) + 2
    return [float((bits[jump] + bits[jump + 1]) / 2), float(math.ceil(bits[3]))]


@pytest.mark.slow
@pytest.mark.parametrize("name", VARYING)
def test_the_last_round_within_the_bits_is_scored(name: str, make_task: Any) -> None:
    config = config_of(make_task, VARYING[name])
    of = config.budget_of
    every = run(config.but(evaluate_every=1), progress=False).rounds
    bits = spent(every, of)
    for budget in budgets(bits):
        done = run(config.but(stop_at_bits=budget), progress=False)
        last = int(np.flatnonzero(bits <= budget)[-1])
        assert len(done.rounds) == int((bits < budget).sum()) + 1
        scored = done.rounds["metric"].notna() & every["metric"].notna()[: len(done.rounds)]
        assert done.rounds["metric"].notna()[last] and scored.sum() >= 2 - (name == "a controller")
        for column in ("metric", "loss"):
            assert done.rounds[column][scored].equals(every[column][: len(scored)][scored])
        curve = curve_of(done.rounds.to_dict("records"), of)
        within = [m for b, m in zip(curve.bits, curve.metric, strict=True) if b <= budget]
        assert within[-1] == done.rounds["metric"][last]


@pytest.fixture
def late(make_task: Any) -> tuple[fedsim.RunConfig, int]:
    """A run that is over because of a dense round, and the number of the round before that."""
    config = config_of(make_task, MARINA)
    bits = spent(run(config, progress=False).rounds, "up")
    before = int(np.argmax(np.diff(bits[2:]))) + 3
    assert bits[before] - bits[before - 1] > 2 * (bits[before - 1] - bits[before - 2])
    return config.but(stop_at_bits=float((bits[before - 1] + bits[before]) / 2)), before


@pytest.mark.slow
def test_a_run_that_goes_on_scores_it_as_well(
    late: tuple[fedsim.RunConfig, int], tmp_path: Path
) -> None:
    config, before = late[0].but(checkpoint_every=1), late[1]
    run(config, tmp_path / "once")
    assert rounds(tmp_path / "once")["metric"].notna().to_numpy()[before - 1]
    for number in (before - 1, before):
        with pytest.raises(Stopped):
            run(config, tmp_path / f"{number}", callbacks=[stop_after(number)])
        run(config, tmp_path / f"{number}")
        assert_same(tmp_path / "once", tmp_path / f"{number}")


def test_a_state_is_not_changed_by_what_is_scored_later(late: tuple[fedsim.RunConfig, int]) -> None:
    config, before = late
    with Federation(config) as first:
        while len(first.rounds) < before:
            first.round()
        state = first.state()
        while not first.done:
            first.round()
    assert math.isnan(state.memory.rounds[-1]["metric"])
    with Federation(config, state) as second:
        while not second.done:
            second.round()
    assert first.rounds["metric"].equals(second.rounds["metric"])
    assert first.rounds["metric"].notna()[before - 1]


class Following(Callback):
    def __init__(self) -> None:
        self.heard: list[tuple[str, int, bool]] = []

    def round(self, row: Any) -> None:
        self.heard.append(("round", row["round"], row["metric"] == row["metric"]))

    def evaluation(self, row: Any) -> None:
        self.heard.append(("evaluation", row["round"], row["metric"] == row["metric"]))


def test_followers_hear_of_it(late: tuple[fedsim.RunConfig, int], tmp_path: Path) -> None:
    config, before = late
    following, file = Following(), tmp_path / "rounds.csv"
    done = run(config, callbacks=[following, CsvWriter(file, ["round", "metric", "loss", "spent"])])
    assert following.heard[-4:] == [
        ("round", before, False),
        ("evaluation", before, True),
        ("round", before + 1, True),
        ("evaluation", before + 1, True),
    ]
    written = pd.read_csv(file)
    assert written["round"].tolist() == done.rounds["round"].tolist()
    assert written["metric"].tolist()[-2:] == done.rounds["metric"].tolist()[-2:]


class Written(Tracker):
    """Keeps what a tracker would write."""

    package = "json"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.rows: list[dict[str, Any]] = []
        self.scores: list[int] = []

    def write(self, row: Any) -> None:
        self.rows.append(dict(row))

    def write_scores(self, row: Any) -> None:
        self.rows[-1] |= row
        self.scores.append(row["round"])


def test_trackers_write_it_once(late: tuple[fedsim.RunConfig, int], tmp_path: Path) -> None:
    config, before = late
    tracker = Written(tmp_path)
    done = run(config, callbacks=[tracker])
    assert tracker.scores == [before]
    assert [row["metric"] for row in tracker.rows[-2:]] == done.rounds["metric"].tolist()[-2:]


def test_statistics_that_did_not_come_are_those_of_the_server(make_task: Any) -> None:
    """With `--buffers local` nobody asks for them in a round that is not expected to be scored."""
    config = config_of(make_task, VARYING["statistics of each client"] | {"buffers": "local"})
    bits = spent(run(config, progress=False).rounds, "up")
    jump = int(np.argmax(np.diff(bits[2:]))) + 2
    done = run(config.but(stop_at_bits=float((bits[jump] + bits[jump + 1]) / 2)), progress=False)
    assert done.rounds["metric"].notna().to_numpy()[-2:].all()


MANY = {"temporal": 2, "iterations": 20, "evaluate_every": 10}  # ten rounds, scored at the end


@pytest.mark.slow
def test_it_ends_after_the_round_that_reaches_the_bits(tmp_path: Path) -> None:
    whole, seen = run(small(**MANY)).rounds, list[Any]()
    stop = float(spent(whole, "up")[5])  # exactly what was sent after six rounds of ten
    done = run(small(**MANY, stop_at_bits=stop), tmp_path / "a", callbacks=[seen.append])
    assert [row["round"] for row in seen] == [1, 2, 3, 4, 5, 6]
    assert [row["last"] for row in seen] == [False] * 5 + [True]
    assert (done.summary["rounds"], done.summary["iterations"]) == (6, 12)
    assert done.summary["up_wire_bits"] == stop and done.summary["status"] == "done"
    ratio = 32 * done.summary["parameters"] * 12 / stop
    assert done.summary["ratio_wire"] == pytest.approx(ratio)
    assert done.summary["metric"] == rounds(tmp_path / "a")["metric"].iloc[-1]
    same = [c for c in whole.columns if c not in ("metric", "loss") and "seconds" not in c]
    pd.testing.assert_frame_equal(rounds(tmp_path / "a")[same], whole[same][:6])
    run(small(**MANY, stop_at_bits=stop + 1), tmp_path / "b")
    (found,) = fedsim.best(fedsim.load(tmp_path / "b"), stop + 1).to_dict("records")
    assert found["up_wire_bits"] == stop  # scored within the budget, though it ended beyond


@pytest.mark.parametrize("budget", [1.0, 1.1, 2.0, 2.99])
def test_of_the_total_the_first_round_may_be_the_last_within(budget: float) -> None:
    """A dense message is all that round 1 sends; from round 2 on the model comes down, too."""
    bits = 32 * 21_386 * budget + 100  # and a header
    seen = run(small(method="raw", **MANY, stop_at_bits=bits, budget_of="total")).rounds
    assert seen is not None and list(seen["metric"].notna()) == [True, True]


def test_of_the_total_late_updates_are_of_no_receiver() -> None:
    """Round 2 asks two clients and applies five updates, of which round 1 asked for four."""
    settings = {"clients": 6, "cohort": 1, "ask": 5, "late": "count", "network": "compute=1s"}
    bits = 0.9 * 32 * 21_386  # less than the model that comes down in round 2
    seen = run(small(**settings, **MANY, stop_at_bits=bits, budget_of="total")).rounds
    assert seen is not None and seen["late"].tolist() == [0, 4]
    assert list(seen["clients"]) == [1, 5] and list(seen["metric"].notna()) == [True, True]


def test_it_is_part_of_a_runs_identity_only_where_it_is_given() -> None:
    assert "stop_at_bits" not in RunConfig().identity()
    assert RunConfig().digest == RunConfig(stop_at_bits=None).digest
    assert RunConfig(stop_at_bits="2Mbit") == RunConfig(stop_at_bits=2e6)
    assert RunConfig(stop_at_bits=2_000_000).digest != RunConfig().digest

"""Rounds on a simulated clock, by hand: three clients, five rounds, late ones and absent ones."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedsim import RunConfig, UsageError, run
from fedsim.federation.rounds import TimedGrid
from fedsim.network import parse
from fedsim.network.pricing import SECONDS
from fedsim.results.load import load_results
from fedsim.show.times import priced
from tests.support import runs
from tests.support.cases import cases
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import assert_same, clients, make_task, small

__all__ = ["make_task"]  # the fixture

FIVE = {"method": "sbc(0.3)", "temporal": 2, "iterations": 10}


def done(config: RunConfig, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    run(config, folder)
    return pd.read_parquet(folder / "rounds.parquet"), runs.clients(folder)


def test_a_trace_is_waited_for(make_task: Callable[..., Any], tmp_path: Path) -> None:
    """Nobody is there in the first 10 s of every 20: two rounds of 5 s, and a wait of 10 s."""
    (tmp_path / "there.csv").write_text("seconds,available\n0,0\n10,1\n20,0\n30,1\n40,0\n50,1\n")
    settings = FIVE | {"network": "compute=2.5s", "availability": str(tmp_path / "there.csv")}
    rounds, _ = done(RunConfig.of(task=make_task(), **settings), tmp_path / "run")
    assert rounds["sim_seconds"].tolist() == [15.0, 5.0, 15.0, 5.0, 15.0]


def test_the_price_of_a_run_is_its_own_clock(tmp_path: Path) -> None:
    text = "up=lognormal(50kbit, 1), down=100kbit, latency=uniform(1ms, 9ms), compute=20ms"
    run(small(network=text, cohort=2), tmp_path)
    results = load_results(tmp_path)
    again = priced(results, parse(text))
    for column in ("sim_seconds", "sim_end_seconds", *SECONDS):
        np.testing.assert_allclose(again[column], results.rounds[column], rtol=1e-9, atol=1e-12)
    assert results.runs["sim_seconds"].iloc[0] == pytest.approx(results.rounds["sim_seconds"].sum())


REFUSED = {
    "deadline": ("30s", "--deadline is 30s: it goes by simulated time; give --network"),
    "ask": (4, "--ask is 4: it goes by simulated time"),
    "availability": ("2", "--availability is '2': give a fraction in"),
    "dropout": ("before=0.7, after=0.7", "--dropout is 'before=0.7, after=0.7': give"),
    "late": ("never", "--late is 'never': give one of hold, drop, count"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    value, told = REFUSED[name]
    with pytest.raises(UsageError) as error:
        RunConfig.of(cohort=3, **{name: value})
    assert told in str(error.value)


def test_the_default_leaves_the_name_of_a_run() -> None:
    names = {"network", "availability", "dropout", "ask", "deadline", "late", "catch_up"}
    assert not names & {*RunConfig().identity()}
    assert names <= {
        *RunConfig.of(
            network="4g, compute=1ms",
            availability=0.5,
            dropout=0.1,
            ask=4,
            cohort=3,
            deadline=5,
            late="drop",
            catch_up=True,
            downlink="sbc(0.05)",
        ).identity()
    }


LATE = {
    "clients": 6,
    "cohort": 4,
    "iterations": 60,
    "temporal": 5,
    "checkpoint_every": 1,
    "network": "up=lognormal(20kbit, 1), down=1Mbit, latency=50ms, compute=uniform(10ms, 30ms), "
    "server_up=60kbit",
}
UNDER_WAY: dict[str, dict[str, Any]] = {
    "hold": {"method": "ef(topk(0.1) | float32 | golomb)", "deadline": "3s"},
    "hold, of the first that come": {"method": "sbc(0.1)", "ask": 6, "cohort": 3},
    "of equals, the first that come": {
        "method": "ef(topk(0.1) | float32 | golomb)",
        "ask": 6,
        "cohort": 3,
        "network": "compute=1s",
    },
    "drop": {"method": "sbc(0.05)", "deadline": "600ms", "late": "drop", "dropout": 0.1},
    "count": {
        "method": "sbc(0.05)",
        "deadline": "700ms",
        "late": "count",
        "downlink": "sbc(0.2)",
        "catch_up": True,
        "availability": "onoff(4s, 1s)",
    },
    "a controller": {"method": "sbc", "controller": "pace(0.1)", "deadline": "1s"},
}


@pytest.mark.parametrize("settings", cases(UNDER_WAY, quick=["count"]))
def test_a_run_with_uploads_under_way_goes_on_from_its_checkpoint(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    config = small(**LATE | settings)
    run(config, tmp_path / "whole")
    for number in (3, 7):
        with pytest.raises(Stopped):
            run(config, tmp_path / "parts", callbacks=[stop_after(number)])
    run(config, tmp_path / "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")
    ends = [
        pd.read_parquet(tmp_path / name / "rounds.parquet")["sim_end_seconds"]
        for name in ("whole", "parts")
    ]
    assert ends[0].equals(ends[1])
    late = clients(tmp_path / "whole")["failure_reasons"].str.contains("when the round was over")
    assert late.sum() > 2


@pytest.mark.slow
def test_a_run_with_uploads_under_way_is_extended(tmp_path: Path) -> None:
    settings = LATE | UNDER_WAY["count"] | {"evaluate_every": 4}
    run(small(**settings), tmp_path / "long")
    run(small(**settings | {"iterations": 40}), tmp_path / "short")
    run(small(**settings), tmp_path / "short")
    assert_same(tmp_path / "long", tmp_path / "short")


def test_a_reply_that_the_clock_does_not_hold_is_that_of_the_grid_beneath() -> None:
    reply = SimpleNamespace(metadata=SimpleNamespace(reply_to_message_id="held"))
    exchange = SimpleNamespace(client=1, over=False, reply=reply)
    pulled, clock = list[list[str]](), SimpleNamespace(exchanges={1: exchange})
    simulated: Any = SimpleNamespace(clock=clock, late={1: exchange})
    beneath: Any = SimpleNamespace(pull_messages=lambda ids: pulled.append(ids) or ["late"])
    grid = TimedGrid(beneath, simulated)
    assert grid.pull_messages(["held", "other"]) == ["late"] and pulled == [["other"]]
    exchange.over = True
    assert grid.pull_messages(["held"]) == [reply] and len(pulled) == 1 and not clock.exchanges

"""Rounds on a simulated clock, by hand: three clients, five rounds, late ones and absent ones."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedsim import RunConfig, UsageError, run
from fedsim.federation import rounds
from fedsim.federation.rounds import TimedGrid
from fedsim.network import parse
from fedsim.network.pricing import SECONDS
from fedsim.results.load import load_results
from fedsim.show.report import write_page
from fedsim.show.times import priced
from strategies.channel.framing import Travel
from tests.support import runs
from tests.support.cases import cases
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import assert_same, clients, make_task, small

__all__ = ["make_task"]  # the fixture

UPS = {0: 10, 1: 20, 2: 40}
FIVE = {"method": "sbc(0.3)", "temporal": 2, "iterations": 10}
NETWORK = "up=10bit, down=1000000bit, latency=500ms, compute=1s"


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of 10, 20 and 40 bits up, and of none down, whatever is in them."""

    def up(message: Any) -> int:
        return UPS[simulated_client(message)]

    def simulated_client(message: Any) -> int:
        return int(message.metadata.src_node_id) - 1

    def back(traffic: Any, client: int, message: Any, framing: bool) -> Travel:
        return Travel(0, up(message))

    monkeypatch.setattr(rounds, "bits_back", back)
    monkeypatch.setattr(rounds, "bits_down", lambda traffic, client, framing: 0)


def done(config: RunConfig, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    run(config, folder)
    return pd.read_parquet(folder / "rounds.parquet"), runs.clients(folder)


def used(clients: pd.DataFrame) -> list[list[int]]:
    """The clients whose update each round uses."""
    there = clients[clients["samples"] > 0]
    return [sorted(there.loc[there["round"] == n, "client"]) for n in range(1, 6)]


@pytest.mark.usefixtures("lengths")
def test_everybody_is_waited_for(make_task: Callable[..., Any], tmp_path: Path) -> None:
    """0.5 s down, 2 s of training, 4 s and 0.5 s up for client 2: every round takes 7 s."""
    config = RunConfig.of(task=make_task(), network=NETWORK, **FIVE)
    rounds, clients = done(config, tmp_path)
    assert rounds["sim_seconds"].tolist() == [7.0] * 5
    assert rounds["sim_end_seconds"].tolist() == [7.0, 14.0, 21.0, 28.0, 35.0]
    first = clients.loc[clients["round"] == 1, list(SECONDS)].to_numpy().tolist()
    assert first == [[0.5, 2, 1.5, 3], [0.5, 2, 2.5, 2], [0.5, 2, 4.5, 0]]
    assert rounds.loc[0, list(SECONDS)].tolist() == pytest.approx([0.5, 2, 8.5 / 3, 5 / 3])


@pytest.mark.usefixtures("lengths")
@pytest.mark.parametrize("late", ["hold", "drop", "count"])
def test_a_deadline(make_task: Callable[..., Any], tmp_path: Path, late: str) -> None:
    """Clients 0 and 1 arrive after 4 and 5 s, client 2 after 7 s: in the round that follows.

    Rounds of 6 s where client 2 is asked (1, 3, 5), for it is waited for until the deadline; where
    it is still at work (2, 4) the round ends with client 1, after 5 s.
    """
    settings = FIVE | {"network": NETWORK, "deadline": "6s", "late": late}
    rounds, clients = done(RunConfig.of(task=make_task(), **settings), tmp_path)
    assert rounds["sim_seconds"].tolist() == [6.0, 5.0, 6.0, 5.0, 6.0]
    last = [[0, 1, 2]] if late == "count" else [[0, 1]]
    assert used(clients) == [[0, 1], *last, [0, 1], *last, [0, 1]]
    assert rounds["failures"].tolist() == [1, 0, 1, 0, 1]
    assert rounds["lost"].tolist() == ([0, 1, 0, 1, 0] if late == "drop" else [0] * 5)
    assert (rounds["failed_up_bits"] > 0).tolist() == [False, late != "count"] * 2 + [False]
    two = clients[clients["client"] == 2].set_index("round")[list(SECONDS)]
    assert two.loc[1].tolist() == [0.5, 2, 3.5, 0]  # cut off by the end of the round
    assert two.loc[2].tolist() == [0, 0, 1, 4]  # the rest of it
    if late == "count":
        assert rounds["late"].tolist() == [0, 1, 0, 1, 0]


@pytest.mark.usefixtures("lengths")
def test_the_first_of_those_that_are_asked(make_task: Callable[..., Any], tmp_path: Path) -> None:
    """Of three, two are taken: the round ends with client 1, after 5 s; client 2 comes 2 s later.

    In the second round two are free and both are taken.
    """
    config = RunConfig.of(task=make_task(), network=NETWORK, cohort=2, ask=3, **FIVE)
    rounds, clients = done(config, tmp_path)
    assert rounds["sim_seconds"].tolist() == [5.0] * 5
    assert used(clients) == [[0, 1]] * 5


@pytest.mark.usefixtures("lengths")
def test_a_late_upload_shares_the_server_s_link(
    make_task: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All share 10 bit/s and send 10, 20 and 100 bits from 2.5 s on.

    Client 0 is done at 5.5 s, client 1 at 7.5 s; at the deadline, 9 s, client 2 has 65 bits left.
    Clients 0 and 1 send again from 11.5 s on, when it has 40: client 0 is done at 14.5 s and client
    1, at 5 bit/s, at 16.5 s. The round ends at 17 s, client 2 at 18.5 s, before the others send
    in the third round, from 19.5 s on: client 0 until 21.5 s and client 1 until 22.5 s.
    """
    monkeypatch.setitem(UPS, 2, 100)
    network = "up=inf, latency=500ms, compute=1s, server_up=10bit"
    settings = FIVE | {"network": network, "deadline": "9s"}
    rounds, clients = done(RunConfig.of(task=make_task(), **settings), tmp_path)
    assert rounds["sim_seconds"].tolist() == pytest.approx([9, 8, 6, 9, 8])
    two = clients[clients["client"] == 2].set_index("round")["sim_upload_seconds"]
    assert two.loc[1] == pytest.approx(9 - 2.5) and two.loc[3] == pytest.approx(2.0)


@pytest.mark.slow
def test_who_drops_out_is_told_at_once_and_charged_nothing(tmp_path: Path) -> None:
    config = small(dropout="before=0.2, after=0.3", iterations=50, network=NETWORK)
    rounds, clients = done(config, tmp_path)
    assert rounds["failures"].sum() > 5 and rounds["failed_up_bits"].sum() == 0
    reasons = set(clients.loc[clients["failures"] > 0, "failure_reasons"])
    assert reasons == {"dropped out before training", "dropped out after training"}
    gone = clients[clients["failure_reasons"] == "dropped out before training"]
    assert (gone["sim_compute_seconds"] == 0).all() and (gone["sim_upload_seconds"] == 0).all()
    assert rounds["returned"].sum() > 0  # what was trained and never sent


@pytest.mark.slow
def test_a_fraction_of_the_clients_is_there(tmp_path: Path) -> None:
    config = small(availability=0.5, iterations=50, clients=6)
    rounds, _ = done(config, tmp_path)
    assert rounds["failures"].sum() == 0 and 1 < rounds["clients"].mean() < 5
    assert not [name for name in rounds if name.startswith("sim_")]


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


@pytest.mark.slow
def test_links_without_limits_change_nothing(finished: Path, tmp_path: Path) -> None:
    """Sync with infinite links is today's run bit for bit, but for the columns of the clock."""
    run(small(keep_payloads=True, network="compute=0s"), tmp_path)
    assert runs.rounds(tmp_path).equals(runs.rounds(finished))
    clock = list(SECONDS)
    assert runs.clients(tmp_path).drop(columns=clock).equals(runs.clients(finished))
    assert runs.model(tmp_path) == runs.model(finished)
    assert runs.payloads(tmp_path) == runs.payloads(finished)
    assert (pd.read_parquet(tmp_path / "rounds.parquet")["sim_seconds"] == 0).all()


finished = runs.finished

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


@pytest.mark.slow
def test_the_page_shows_time_a_round_and_who_leads(tmp_path: Path) -> None:
    for name, method in (("few", "sbc(0.05)"), ("all", "raw")):
        config = small(method=method, label=name, network="up=10kbit, compute=1ms")
        run(config, tmp_path / "cells" / name)
    text = write_page(tmp_path).read_text(encoding="utf-8")
    assert 'id="chart-time"' in text and 'id="chart-timeline-2"' in text
    assert "Best so far on the simulated clock: few from" in text
    run(small(), tmp_path / "plain")
    plain = write_page(tmp_path / "plain").read_text(encoding="utf-8")
    assert "simulated" not in plain and "chart-time" not in plain


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

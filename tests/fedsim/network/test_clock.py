"""Rounds on the clock: five rounds of three clients by hand, and whole runs."""

from pathlib import Path

import pandas as pd
import pytest

from fedsim import run
from fedsim.network import Clock, Work, parse, pricing
from fedsim.network.pricing import CLIENT_COLUMNS, SECONDS, price
from tests.support import runs


def five_rounds() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Three clients; 2 local iterations a round; client 2's reply of round 4 is not used."""
    rounds = pd.DataFrame({"round": range(1, 6), "local_iterations": 2, "clients": 3,
                           "train_seconds": [6.0, 12.0, 6.0, 6.0, 6.0]})  # fmt: skip
    rows = []
    for number in range(1, 6):
        for client in range(3):
            failed = (number, client) == (4, 2)
            up = 0 if failed else [10, 20, 40][client]
            rows.append([number, client, 0 if failed else 60, up, 0 if number == 1 else 30, failed])
    return rounds, pd.DataFrame(rows, columns=CLIENT_COLUMNS)


def test_five_rounds_by_hand() -> None:
    """Up 10 bit/s, down 30 bit/s, a delay of 0.5 s, 1 s per iteration (the measured median).

    Round 1 has no charged download: 0.5 s down, 2 s of training, 40 bits in 4 s and 0.5 s up for
    client 2: 7 s. Later rounds add 1 s for 30 bits down: 8 s. Without client 2 round 4 ends with
    client 1: 1.5 + 2 + 2.5 = 6 s.
    """
    rounds, clients = five_rounds()
    priced, used = price(rounds, clients, parse("up=10bit, down=30bit, latency=500ms"), 3, 0)
    assert priced["sim_seconds"].tolist() == [7, 8, 8, 6, 8]
    assert priced["sim_end_seconds"].tolist() == [7, 15, 23, 29, 37]
    first = used.loc[used["round"] == 1, list(SECONDS)].to_numpy().tolist()
    assert first == [[0.5, 2, 1.5, 3], [0.5, 2, 2.5, 2], [0.5, 2, 4.5, 0]]
    assert len(used) == 14 and set(used.loc[used["round"] == 4, "client"]) == {0, 1}


def test_a_shared_uplink_by_hand() -> None:
    """All three begin to send at 2.5 s over 12 bit/s together, each at most 10 bit/s.

    4 bit/s each until client 0's 10 bits are sent (5 s); 6 bit/s each until client 1's other
    10 bits are sent (6 2/3 s); client 2 then has 20 bits left, at 10 bit/s: 8 2/3 s.
    """
    rounds, clients = five_rounds()
    network = parse("up=10bit, latency=500ms, server_up=12bit")
    _, used = price(rounds, clients, network, 3, 0)
    upload = used.loc[used["round"] == 1, "sim_upload_seconds"].tolist()
    assert upload == pytest.approx([3.0, 4 + 1 / 6 + 0.5, 6 + 1 / 6 + 0.5])


def test_what_is_on_its_way_to_a_client_that_left_is_given_up_when_it_is_asked_anew() -> None:
    """Client 0 has 8 of 10 bits to come at 1 s; the next 10 have the link of 2 bit/s to themselves.

    So it is done at 6 s, beside client 1, whose link is of no use to it. Client 2 left, too, and is
    not asked: the 3 bit/s of the server are 1 bit/s each.
    """
    for capacity, there in (("inf", 6.0), ("3bit", 11.0)):
        network = parse(f"down=2bit, server_down={capacity}, compute=0s")
        clock = Clock(network.links(3, 0, 0.0))
        clock.ask([Work(0, 1, 10, until="received"), Work(2, 1, 40, until="received")])
        clock.to(1.0)
        clock.ask([Work(0, 2, 10), Work(1, 2, 10)])
        assert [(w.client, w.round) for w in clock.works] == [(2, 1), (0, 2), (1, 2)]
        assert [w.received for w in clock.works[1:]] == [there, there]


def test_the_fast_way_and_the_way_of_events_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, clients = five_rounds()
    network = parse("up=lognormal(10bit, 1), down=uniform(20bit, 40bit), latency=500ms")
    fast, _ = price(rounds, clients, network, 3, 0)
    monkeypatch.setattr(pricing, "_simple", lambda links: False)
    slow, _ = price(rounds, clients, network, 3, 0)
    pd.testing.assert_frame_equal(fast, slow, rtol=1e-12)


def test_traces_go_by_the_clock(tmp_path: Path) -> None:
    """Up 10 bit/s until 10 s, then 1 bit/s: a second round of 10 bits takes ten times as long."""
    (tmp_path / "t.csv").write_text("seconds,up,down\n0,10,1000\n10,1,1000\n1000,1,1000\n")
    links = parse(f"trace={tmp_path / 't.csv'}, compute=0s").links(1, 0, 0.0)

    def seconds(now: float) -> float:
        clock, work = Clock(links, now), Work(0, 1, 0, up_bits=10)
        clock.ask([work])
        return work.arrived - now

    assert [seconds(now) for now in (0.0, 10.0, 9.5)] == [1, 10, 0.5 + 5]


def test_a_real_run_is_priced_from_its_messages(tmp_path: Path) -> None:
    config = runs.small(clients=3)
    run(config, tmp_path)
    rounds, clients = pd.read_parquet(tmp_path / "rounds.parquet"), runs.clients(tmp_path)
    slow, used = price(rounds, clients, parse("up=1kbit, compute=0s"), 3, 0)
    wanted = clients.groupby("round")["up_wire_bits"].max() / 1000
    assert slow["sim_seconds"].tolist() == pytest.approx(wanted.tolist())
    assert used[list(SECONDS)].sum(axis=1).groupby(used["round"]).std().max() < 1e-12
    free, _ = price(rounds, clients, parse("up=inf"), 3, 0)
    used["local_iterations"] = config.temporal
    measured = pricing.measured_iteration(rounds, used) * config.temporal
    assert free["sim_seconds"].tolist() == pytest.approx([measured] * len(free))

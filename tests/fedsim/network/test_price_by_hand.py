"""A run's price by hand: two clients of unlike links, two rounds, and rows that do not count.

Client 0: 10 bit/s up, 20 down, 0.5 s of latency; client 1: 100 up, 50 down, 0.25 s, and three times
as long for an iteration.

==== ======= ========= ======= ========= ==================================================
round client bits down bits up failures  what it is
==== ======= ========= ======= ========= ==================================================
1    0       0         100     0         used
1    1       0         50      0         used
1    2       0         0       1         absent
2    0       40        20      0         used
2    1       100       0       1         its reply was not used: nobody waits for it
2    2       0         0       0         a late upload of an earlier round: no samples, no part
==== ======= ========= ======= ========= ==================================================

Round 1 has 2 local iterations and took 4 s of training of 2 clients: 1 s each. Round 2 has 4 and
took 6 s of one client: 1.5 s each. The median is 1.25 s.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedsim.network import pricing
from fedsim.network.pricing import (
    PRICED_COLUMNS,
    SECONDS,
    ends_over_rates,
    measured_iteration,
    price,
)
from fedsim.network.rates import Rate
from fedsim.network.spec import Links, NetworkSpec, parse

ROUNDS = pd.DataFrame(
    {"round": [1, 2], "local_iterations": [2, 4], "clients": [2, 1], "train_seconds": [4.0, 6.0]}
)
CLIENTS = pd.DataFrame(
    [
        (2, 2, 0, 0, 0, 0),
        (2, 1, 0, 0, 100, 1),
        (2, 0, 60, 20, 40, 0),  # in any order
        (1, 2, 0, 0, 0, 1),
        (1, 1, 60, 50, 0, 0),
        (1, 0, 60, 100, 0, 0),
    ],
    columns=PRICED_COLUMNS,
)


@dataclass
class Unlike:
    """A network whose links are given; it writes down what it was asked."""

    server_up: float = math.inf
    server_down: float = math.inf
    framing: bool = False
    coding: float = 0.0
    asked: list[tuple[int, int, float]] = field(default_factory=list)

    def links(self, clients: int, seed: int, measured: float) -> Links:
        self.asked.append((clients, seed, measured))
        up, down = (
            [Rate.constant(x) for x in rates] for rates in ((10.0, 100.0, 1.0), (20.0, 50.0, 1.0))
        )
        return Links(
            up,
            down,
            np.array([0.5, 0.25, 9.0]),
            measured * np.array([1.0, 3.0, 9.0]),
            self.server_up,
            self.server_down,
        )


def priced(network: Any) -> tuple[pd.DataFrame, list[list[float]]]:
    rounds, used = price(ROUNDS, CLIENTS, network, 3, 5)
    assert used[["round", "client"]].to_numpy().tolist() == [[1, 0], [1, 1], [2, 0]]
    return rounds, used[list(SECONDS)].to_numpy().tolist()


def test_the_time_of_an_iteration_is_the_median_of_the_rounds() -> None:
    used = pd.DataFrame({"round": [1, 1, 2], "local_iterations": [2, 2, 4]})
    assert measured_iteration(ROUNDS, used) == 1.25
    unlike = pd.DataFrame({"round": [1, 1, 2], "local_iterations": [7, 1, 2]})
    assert measured_iteration(ROUNDS, unlike) == 1.75  # half a second, and three


def test_two_rounds_by_hand() -> None:
    """Download, compute, upload, waiting.

    Round 1: client 0 takes 0.5, 2 * 1.25 = 2.5 and 100 / 10 + 0.5 = 10.5, 13.5 in all; client 1
    takes 0.25, 2 * 3.75 = 7.5 and 50 / 100 + 0.25 = 0.75, and waits for 5.
    Round 2: client 0 takes 40 / 20 + 0.5 = 2.5, 4 * 1.25 = 5 and 20 / 10 + 0.5 = 2.5.
    """
    network = Unlike()
    rounds, parts = priced(network)
    assert network.asked == [(3, 5, 1.25)]
    assert parts == [[0.5, 2.5, 10.5, 0], [0.25, 7.5, 0.75, 5], [2.5, 5, 2.5, 0]]
    assert rounds["sim_seconds"].tolist() == [13.5, 10]
    assert rounds["sim_end_seconds"].tolist() == [13.5, 23.5]
    means = rounds[list(SECONDS)].to_numpy().tolist()
    assert means == [[0.375, 5, 5.625, 2.5], [2.5, 5, 2.5, 0]]
    assert rounds["round"].tolist() == [1, 2] and len(ROUNDS.columns) == 4  # nothing is changed


@pytest.mark.parametrize("server", [math.inf, 1e9])
def test_an_update_that_is_refused_is_waited_for(server: float) -> None:
    """In round 2 client 1 trains for 4 * 3.75 s and sends 200 bits, which are refused when they
    come: 100 / 50 + 0.25 + 15 + 200 / 100 + 0.25 = 19.5 s; client 0 waits for 9.5 s.

    Client 2's late upload of an earlier round is not waited for. Without client 0 the round has no
    used reply, an iteration is round 1's second, and client 1 takes 2.25 + 12 + 2.25 s.
    """
    network: Any = Unlike(server_up=server)
    refused = CLIENTS.assign(failed_up_bits=[70_000, 200, 0, 0, 0, 0])
    rounds, used = price(ROUNDS, refused, network, 3, 5)
    assert rounds["sim_end_seconds"].tolist() == pytest.approx([13.5, 33])
    assert used["client"].tolist() == [0, 1, 0] and used["up_wire_bits"].tolist() == [100, 50, 20]
    assert rounds.loc[1, [*SECONDS]].tolist() == pytest.approx([2.5, 5, 2.5, 9.5])
    nobody = refused[(refused["round"] == 1) | (refused["client"] != 0)]
    rounds, used = price(ROUNDS, nobody, network, 3, 5)
    assert rounds["sim_seconds"].tolist() == pytest.approx([13, 16.5])
    assert used["client"].tolist() == [0, 1] and rounds.loc[1, [*SECONDS]].isna().all()
    alone, _ = price(ROUNDS[1:], nobody[nobody["round"] == 2], network, 3, 5)
    assert alone["sim_seconds"].tolist() == pytest.approx([4.5])  # nothing was measured


def test_two_rounds_over_a_shared_link_by_hand() -> None:
    """The server takes 12 bit/s. Client 0 sends from 3 s on at 10 bit/s: 47.5 bits by 7.75 s, when
    client 1 begins. Then both have 6: client 1's 50 bits take 8 1/3 s, to 16 1/12 s; of client 0's
    52.5 there are 2.5 left, at 10 bit/s: 16 1/3 s. With the latencies 16 5/6 and 16 1/3 s.

    Round 2 begins at 16 5/6 s, and client 0 is alone: 10 s.
    """
    rounds, parts = priced(Unlike(server_up=12.0))
    assert parts[0] == pytest.approx([0.5, 2.5, 16 + 5 / 6 - 3, 0])
    assert parts[1] == pytest.approx([0.25, 7.5, 16 + 1 / 3 - 7.75, 0.5])
    assert parts[2] == pytest.approx([2.5, 5, 2.5, 0])
    assert rounds["sim_end_seconds"].tolist() == pytest.approx([16 + 5 / 6, 26 + 5 / 6])


def test_a_shared_downlink_by_hand() -> None:
    """5 bit/s at the server, of which client 1, whose reply is not used, has the half: client 0's
    40 bits of round 2 take 16 s in the place of 2.
    """
    rounds, parts = priced(Unlike(server_down=5.0))
    assert parts[2] == pytest.approx([16.5, 5, 2.5, 0]) and parts[0] == [0.5, 2.5, 10.5, 0]
    assert rounds["sim_end_seconds"].tolist() == pytest.approx([13.5, 37.5])


def test_a_round_without_a_used_reply_takes_no_time() -> None:
    """Round 2's only used row fails too, so that an iteration is round 1's second: 13 s."""
    clients = CLIENTS.assign(failures=[0, 1, 1, 1, 0, 0])
    network: Any = Unlike()
    rounds, _ = price(ROUNDS, clients, network, 3, 5)
    assert rounds["sim_seconds"].tolist() == [13, 0]


@pytest.mark.parametrize("server", ["", ", server_up=1Gbit"])
def test_ends_over_rates_by_hand(server: str) -> None:
    """At 10 and 100 bit/s both ways, 0.5 s of latency, 1 s an iteration.

    Round 1, 2 iterations: 100 bits are 1 + 2 + 10 = 13 or 4 s, 50 bits 8 or 3.5 s: the first is
    last. Round 2, 4 iterations, 40 bits down and 20 up: 5 + 6 = 11 or 5.6 s.
    """
    network = parse(f"up=1bit, down=3bit, latency=500ms, compute=1s{server}")
    ends = ends_over_rates(ROUNDS, CLIENTS, network, 3, 5, np.array([10.0, 100.0]))
    assert ends == pytest.approx(np.array([[13, 4], [24, 9.6]]))


@pytest.mark.parametrize("server", ["", ", server_up=1Gbit"])
def test_ends_over_rates_wait_for_what_is_refused(server: str) -> None:
    """As above, but of client 1's 200 bits in round 2, which are refused: 5 + 30 or 5 + 3 s."""
    network = parse(f"up=1bit, down=3bit, latency=500ms, compute=1s{server}")
    refused = CLIENTS.assign(failed_up_bits=[70_000, 200, 0, 0, 0, 0])
    ends = ends_over_rates(ROUNDS, refused, network, 3, 5, np.array([10.0, 100.0]))
    assert ends == pytest.approx(np.array([[13, 4], [48, 12]]))


@pytest.mark.parametrize("server", ["", ", server_up=1Gbit"])
def test_ends_over_rates_of_rounds_without_a_used_reply(server: str) -> None:
    """Round 1 as in the table; nobody's reply of round 2 is used, round 3 is as round 2 was: 11 or
    5.6 s, and coding takes none in round 2. The rounds stand where they are asked for.

    The server codes for 1 s after rounds 1 and 3.
    """
    rounds = pd.DataFrame(
        {
            "round": [1, 2, 3],
            "local_iterations": [2, 4, 4],
            "clients": [2, 0, 1],
            "train_seconds": [4.0, 0.0, 6.0],
            "encode_seconds": 0.0,
            "receive_seconds": 0.0,
            "decode_seconds": 0.75,
            "downlink_seconds": 0.25,
            "downlink": "raw",
        }
    )
    second = CLIENTS[CLIENTS["round"] == 2]
    nobody = second.assign(samples=0, up_wire_bits=0, failures=1)
    clients = pd.concat([CLIENTS[CLIENTS["round"] == 1], nobody, second.assign(round=3)])
    network = parse(f"latency=500ms, compute=1s, coding=measured{server}")
    ends = ends_over_rates(rounds, clients, network, 3, 5, np.array([10.0, 100.0]))
    assert ends == pytest.approx(np.array([[14, 5], [14, 5], [26, 11.6]]))
    only = ends_over_rates(rounds[1:2], nobody, network, 3, 5, np.array([10.0, 100.0]))
    assert only.tolist() == [[0, 0]]


class Slower(NetworkSpec):
    """Client 1 takes three times as long for an iteration."""

    def links(self, clients: int, seed: int, measured: float) -> Links:
        made = super().links(clients, seed, measured)
        made.compute[1] *= 3
        return made


def test_ends_over_rates_do_not_count_who_waits() -> None:
    """As above, but 2 * 3 s of training of client 1: 12 or 7.5 s, so that it is last at 100 bit/s.

    Round 1 takes 13 or 7.5 s, round 2, of client 0 alone, 11 or 5.6 s.
    """
    plain = parse("latency=500ms, compute=1s")
    network = Slower(latency=plain.latency, compute=plain.compute, measured=False)
    ends = ends_over_rates(ROUNDS, CLIENTS, network, 3, 5, np.array([10.0, 100.0]))
    assert ends == pytest.approx(np.array([[13, 7.5], [24, 13.1]]))


class Traced(NetworkSpec):
    """10 bit/s up until 25 s, 5 from then on."""

    def links(self, clients: int, seed: int, measured: float) -> Links:
        up = [Rate((0.0, 25.0), (10.0, 5.0))]
        return Links(up, [Rate.constant(math.inf)], np.zeros(1), np.zeros(1), math.inf, math.inf)


def test_a_round_begins_where_the_one_before_has_ended() -> None:
    """100 bits a round: 10 s, 10 s, and from 20 s on 50 bits by 25 s and 50 in 10 s."""
    rounds = pd.DataFrame(
        {"round": [1, 2, 3], "local_iterations": 1, "clients": 1, "train_seconds": 1.0}
    )
    clients = pd.DataFrame(
        [(number, 0, 60, 100, 0, 0) for number in (1, 2, 3)], columns=PRICED_COLUMNS
    )
    table, _ = price(rounds, clients, Traced(), 1, 0)
    assert table["sim_seconds"].tolist() == [10, 10, 15]
    assert table["sim_end_seconds"].tolist() == [10, 20, 35]
    # With 5 s of coding at the server the third round begins at 30 s.
    coding = {"encode_seconds": 0.0, "receive_seconds": 0.0, "downlink_seconds": 0.0}
    rounds = rounds.assign(**coding, decode_seconds=5.0, downlink="raw")
    table, _ = price(rounds, clients, Traced(coding=1.0), 1, 0)
    assert table["sim_end_seconds"].tolist() == [15, 30, 55]


def test_compute_in_seconds_and_times_what_was_measured() -> None:
    """Round 1 without links: 2 iterations of 1.25 s, of twice that, of 0.5 s."""
    for text, seconds in (("up=inf", 2.5), ("compute=2*measured", 5.0), ("compute=500ms", 1.0)):
        assert price(ROUNDS, CLIENTS, parse(text), 3, 5)[0]["sim_seconds"][0] == seconds


def test_the_fast_way_and_the_way_of_events_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    network = parse("up=lognormal(10bit, 1), down=uniform(20bit, 40bit), latency=500ms")
    fast, _ = price(ROUNDS, CLIENTS, network, 3, 0)
    monkeypatch.setattr(pricing, "_simple", lambda links: False)
    slow, _ = price(ROUNDS, CLIENTS, network, 3, 0)
    pd.testing.assert_frame_equal(fast, slow, rtol=1e-12)

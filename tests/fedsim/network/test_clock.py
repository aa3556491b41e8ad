"""Requests and replies on the clock by hand: received, trained, arrived.

Bits and rates are small numbers, so that most of the sums are exact.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsim.network import Clock, Exchange, parse
from fedsim.network.rates import ConstantRates


def sent(clock: Clock[Exchange], *exchanges: Exchange) -> list[Exchange]:
    """They leave now."""
    clock.send(exchanges)
    return [*exchanges]


def over(clock: Clock[Exchange], *exchanges: Exchange) -> list[list[float]]:
    """When each has its request, has trained and has ended, of exchanges that all end."""
    clock.wait(exchanges, len(exchanges))
    return [[x.received_at, x.trained_at, x.ended_at] for x in exchanges]


def test_a_round_of_two_clients_that_share_both_ways() -> None:
    """From 100 s. 10 bit/s down for both, client 1 taking 2 at most: 2.5 and 10 s for 20 bits each.

    Latencies of 0.5 and 1 s, each way; 3 iterations of 1 and 0.5 s. Client 0 has trained after 6 s,
    client 1 after 12.5 s. 6 bit/s up: client 0's 60 bits have 39 gone by then, and 21 left; both
    have 3: client 0 is through after 19.5 s. Client 1, of 30 bits, has 9 left: 21 s.
    """
    links = parse("server_up=6bit, server_down=10bit, compute=1s").links(2, 0, 0.0)
    own = {"latency": np.array([0.5, 1.0]), "compute": np.array([1.0, 0.5])}
    links = replace(links, down=ConstantRates(np.array([np.inf, 2.0])), **own)
    clock: Clock[Exchange] = Clock(links, 100.0)
    both = sent(clock, Exchange(0, 1, 20, 3.0, 60), Exchange(1, 1, 20, 1.5, 30))
    over(clock, *both)
    parts = [exchange.parts(100, 122).tolist() for exchange in both]
    assert parts == [[3, 3, 14, 2], [11, 1.5, 9.5, 0]]


def stored(clock: Clock[Exchange]) -> Clock[Exchange]:
    """The same clock after a checkpoint."""
    again: Clock[Exchange] = Clock(clock.links)
    again.restore(json.loads(json.dumps(clock.state())), [*clock.exchanges.values()])
    return again


@pytest.mark.parametrize("kept", [False, True])
def test_a_clock_over_three_rounds_with_late_downloads_and_uploads(kept: bool) -> None:
    """12 bit/s down and 6 bit/s up for all, 0.5 s of latency each way.

    At 0 s clients 0 and 1 are sent 12 and 36 bits, at 6 bit/s each: 2 s; client 1 then has 12: 4 s.
    1 s of training. Client 0 sends 6 bits from 3.5 to 4.5 s.

    At 3 s client 2 is sent 12 bits. Client 1 has had 12 by 2 s and 12 more by 3 s: 12 are
    left, and both are through at 5 s. Client 2 trains for 0.5 s and sends 9 bits
    from 6 s, client 1 its 12 from 6.5 s, when 6 of the others are left: 3 bit/s each until 8.5 s,
    and client 1 with 6 bit/s until 9.5 s.

    At 7.5 s client 0 is asked again, with no bits down: it sends 6 bits from 8 s, when 7.5 and 1.5
    are left of the others': 2 bit/s each until 8.75 s, 3 for two until 10.25 s; client 1 has 1.5
    left then: 10.5 s. ``kept``: a checkpoint is gone on with at 3, 4.75 and 9 s.
    """
    links = parse("server_up=6bit, server_down=12bit, latency=500ms, compute=1s").links(3, 0, 0.0)
    clock: Clock[Exchange] = Clock(links)
    first = sent(clock, Exchange(0, 1, 12, 1.0, 6), Exchange(1, 1, 36, 1.0, 12))
    clock.to(3.0)
    clock = stored(clock) if kept else clock
    (second,) = sent(clock, Exchange(2, 2, 12, 0.5, 9))
    clock.to(4.75)  # client 0's bits are through, and are there in a quarter of a second
    assert not first[0].over
    clock = stored(clock) if kept else clock
    clock.to(7.5)
    (third,) = sent(clock, Exchange(0, 3, 0, 0.0, 6))
    clock.to(9.0)
    clock = stored(clock) if kept else clock
    assert over(clock, *first, second, third) == [
        [2.5, 3.5, 5],
        [5.5, 6.5, 11],
        [5.5, 6, 9.25],
        [8, 8, 10.75],
    ]


def test_the_clock_waits_for_so_many_or_until_a_time() -> None:
    """Uploads of 2, 4 and 4 s, of which two end together; what happens at that moment has."""
    clock: Clock[Exchange] = Clock(parse("up=1bit, compute=0s").links(3, 0, 0.0), 10.0)
    three = sent(clock, *(Exchange(client, 1, up_bits=n) for client, n in enumerate((2, 4, 4))))
    clock.wait(three, 1, 11.0)
    assert clock.now == 11 and not three[0].over
    clock.wait(three, 1)
    assert clock.now == 12 and [x.over for x in three] == [True, False, False]
    clock.wait(three, 2)  # of which one has ended
    assert clock.now == 14 and all(x.over for x in three)
    clock.wait(three, 4, 20.0)
    assert clock.now == 20


def test_who_drops_out_takes_no_link_and_no_more_time() -> None:
    """Client 0 drops out when it has its message, client 1 when it has trained: client 2 is alone.

    All three share the way down: 4 bits each at 4 bit/s are there at 3 s, and 0.5 s later.
    """
    links = parse("server_up=6bit, server_down=4bit, latency=500ms, compute=1s").links(3, 0, 0.0)
    clock: Clock[Exchange] = Clock(links, now=10.0)
    three = sent(
        clock,
        Exchange(0, 1, 4, 2.0, 12, "received"),
        Exchange(1, 1, 4, 2.0, 12, "trained"),
        Exchange(2, 1, 4, 2.0, 12),
    )
    assert over(clock, *three) == [[13.5, 13.5, 13.5], [13.5, 15.5, 15.5], [13.5, 15.5, 18]]


def test_what_the_server_answers_comes_before_the_upload() -> None:
    """1 s down, 2 s of work, 3 bits down at 1 bit/s, 4 bits up at 2 bit/s; 0.5 s of latency."""
    network = "up=2bit, down=1bit, latency=500ms, compute=1s"
    clock: Clock[Exchange] = Clock(parse(network).links(1, 0, 0.0))
    assert over(clock, *sent(clock, Exchange(0, 1, 1, 2.0, 4, answer_bits=3))) == [[1.5, 3.5, 9]]


@pytest.mark.parametrize(
    ("start", "end", "parts"),
    [
        (0, 20, [1, 4, 5, 10]),
        (2, 12, [1, 4, 5, 0]),
        (2, 14, [1, 4, 5, 2]),
        (0, 2, [0, 0, 0, 2]),
        (2.5, 5, [0.5, 2, 0, 0]),
        (2, 2.5, [0.5, 0, 0, 0]),
        (4, 6, [0, 2, 0, 0]),
        (5, 9, [0, 2, 2, 0]),
        (9, 15, [0, 0, 3, 3]),
        (12, 15, [0, 0, 0, 3]),
        (3, 3, [0, 0, 0, 0]),
    ],
)
def test_the_parts_of_an_exchange(start: float, end: float, parts: list[float]) -> None:
    """Asked at 2 s, has its message at 3, has trained at 7, has come at 12."""
    exchange = Exchange(0, 1, sent_at=2, received_at=3, trained_at=7, ended_at=12)
    assert exchange.parts(start, end).tolist() == parts and sum(parts) == end - start


def test_what_is_on_its_way_to_a_client_that_left_is_given_up_when_it_is_asked_anew() -> None:
    """Client 0 has 8 of 10 bits to come at 1 s; the next 10 have the link of 2 bit/s to themselves.

    So it is done at 6 s, beside client 1, whose link is of no use to it. Client 2 left, too, and is
    not asked: the 3 bit/s of the server are 1 bit/s each.
    """
    for capacity, there in (("inf", 6.0), ("3bit", 11.0)):
        network = parse(f"down=2bit, server_down={capacity}, compute=0s")
        clock: Clock[Exchange] = Clock(network.links(3, 0, 0.0))
        bits = {0: 10, 2: 40}
        left = sent(clock, *(Exchange(c, 1, n, until="received") for c, n in bits.items()))
        clock.to(1.0)
        both = sent(clock, Exchange(0, 2, 10), Exchange(1, 2, 10))
        assert [end for _, _, end in over(clock, *both)] == [there, there]
        assert not any(exchange.over for exchange in left)
        clock.wait(left, 1)
        assert [exchange.over for exchange in left] == [False, True]


def test_traces_go_by_the_clock(tmp_path: Path) -> None:
    """Up 10 bit/s until 10 s, then 1 bit/s: a second round of 10 bits takes ten times as long."""
    (tmp_path / "t.csv").write_text("seconds,up,down\n0,10,1000\n10,1,1000\n1000,1,1000\n")
    links = parse(f"trace={tmp_path / 't.csv'}, compute=0s").links(1, 0, 0.0)

    def seconds(now: float) -> float:
        clock: Clock[Exchange] = Clock(links, now)
        (exchange,) = sent(clock, Exchange(0, 1, up_bits=10))
        over(clock, exchange)
        return exchange.ended_at - now

    assert [seconds(now) for now in (0.0, 10.0, 9.5)] == [1, 10, 0.5 + 5]

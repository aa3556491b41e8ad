"""Requests and replies on the clock by hand: received, trained, arrived.

Bits and rates are small numbers, so that most of the sums are exact.
"""

import json

import pytest

from fedsim.network import Clock, Exchange, parse


def sent(clock: Clock[Exchange], *exchanges: Exchange) -> list[Exchange]:
    """They leave now."""
    clock.send(exchanges)
    return [*exchanges]


def over(clock: Clock[Exchange], *exchanges: Exchange) -> list[list[float]]:
    """When each has its request, has trained and has ended, of exchanges that all end."""
    clock.wait(exchanges, len(exchanges))
    return [[x.received_at, x.trained_at, x.ended_at] for x in exchanges]


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

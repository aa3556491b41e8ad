"""Messages and training on the clock by hand: asked, received, trained, arrived.

Bits and rates are small numbers, so that most of the sums are exact.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsim.network import Clock, Work, parse
from fedsim.network.rates import ConstantRates


def test_a_round_of_two_clients_that_share_both_ways() -> None:
    """From 100 s. 10 bit/s down for both, client 1 taking 2 at most: 2.5 and 10 s for 20 bits each.

    Latencies of 0.5 and 1 s, each way; 3 iterations of 1 and 0.5 s. Client 0 has trained after 6 s,
    client 1 after 12.5 s. 6 bit/s up: client 0's 60 bits have 39 gone by then, and 21 left; both
    have 3: client 0 is through after 19.5 s. Client 1, of 30 bits, has 9 left: 21 s.
    """
    links = parse("server_up=6bit, server_down=10bit, compute=1s").links(2, 0, 0.0)
    own = {"latency": np.array([0.5, 1.0]), "compute": np.array([1.0, 0.5])}
    links = replace(links, down=ConstantRates(np.array([np.inf, 2.0])), **own)
    clock = Clock(links, 100.0)
    clock.ask([Work(0, 1, 20, 3.0, 60), Work(1, 1, 20, 1.5, 30)])
    parts = [work.parts(100, 122).tolist() for work in clock.works]
    assert parts == [[3, 3, 14, 2], [11, 1.5, 9.5, 0]]


def works(clock: Clock) -> dict[tuple[int, int], list[float]]:
    """When each has its message, has trained and has come."""
    return {(w.client, w.round): [w.received, w.trained, w.arrived] for w in clock.works}


def test_a_clock_over_three_rounds_with_late_downloads_and_uploads() -> None:
    """12 bit/s down and 6 bit/s up for all, 0.5 s of latency each way.

    At 0 s clients 0 and 1 are sent 12 and 36 bits, at 6 bit/s each: 2 s; client 1 then has 12: 4 s.
    1 s of training. Client 0 sends 6 bits from 3.5 to 4.5 s, client 1 12 bits from 5.5 to 7.5 s.

    At 3 s client 2 is sent 12 bits. Client 1 has had 12 by 2 s and 12 more by 3 s: 12 are
    left, and both are through at 5 s. Client 2 trains for 0.5 s and sends 9 bits
    from 6 s, client 1 its 12 from 6.5 s, when 6 of the others are left: 3 bit/s each until 8.5 s,
    and client 1 with 6 bit/s until 9.5 s.

    At 7.5 s client 0 is asked again, with no bits down: it sends 6 bits from 8 s, when 7.5 and 1.5
    are left of the others': 2 bit/s each until 8.75 s, 3 for two until 10.25 s; client 1 has 1.5
    left then: 10.5 s.
    """
    links = parse("server_up=6bit, server_down=12bit, latency=500ms, compute=1s").links(3, 0, 0.0)
    clock = Clock(links)
    clock.ask([Work(0, 1, 12, 1.0, 6), Work(1, 1, 36, 1.0, 12)])
    assert works(clock) == {(0, 1): [2.5, 3.5, 5], (1, 1): [4.5, 5.5, 8]}
    clock.to(3.0)
    assert clock.works[1].down_bits == 12 and [w.up_bits for w in clock.works] == [6, 12]
    clock.ask([Work(2, 2, 12, 0.5, 9)])
    assert works(clock) == {(0, 1): [2.5, 3.5, 5], (1, 1): [5.5, 6.5, 10], (2, 2): [5.5, 6, 9]}
    clock.to(4.75)  # client 0's bits are through, and are there in a quarter of a second
    assert works(clock)[0, 1] == [2.5, 3.5, 5]
    clock.to(5.0)
    assert list(works(clock)) == [(1, 1), (2, 2)]
    clock.to(7.5)
    assert [w.up_bits for w in clock.works] == [9, 3]
    clock.ask([Work(0, 3, 0, 0.0, 6)])
    assert works(clock) == {
        (1, 1): [5.5, 6.5, 11], (2, 2): [5.5, 6, 9.25], (0, 3): [8, 8, 10.75]
    }  # fmt: skip
    clock.to(9.25)
    assert list(works(clock)) == [(1, 1), (0, 3)]


def test_who_drops_out_takes_no_link_and_no_more_time() -> None:
    """Client 0 drops out when it has its message, client 1 when it has trained: client 2 is alone.

    All three share the way down: 4 bits each at 4 bit/s are there at 3 s, and 0.5 s later.
    """
    links = parse("server_up=6bit, server_down=4bit, latency=500ms, compute=1s").links(3, 0, 0.0)
    clock = Clock(links, now=10.0)
    clock.ask([Work(0, 1, 4, 2.0, 12, "received"), Work(1, 1, 4, 2.0, 12, "trained"),
               Work(2, 1, 4, 2.0, 12)])  # fmt: skip
    assert works(clock) == {
        (0, 1): [13.5, 13.5, 13.5], (1, 1): [13.5, 15.5, 15.5], (2, 1): [13.5, 15.5, 18]
    }  # fmt: skip
    clock.to(15.5)
    assert list(works(clock)) == [(2, 1)]


@pytest.mark.parametrize(
    ("start", "end", "parts"),
    [
        (0, 20, [1, 4, 5, 10]), (2, 12, [1, 4, 5, 0]), (2, 14, [1, 4, 5, 2]), (0, 2, [0, 0, 0, 2]),
        (2.5, 5, [0.5, 2, 0, 0]), (2, 2.5, [0.5, 0, 0, 0]), (4, 6, [0, 2, 0, 0]),
        (5, 9, [0, 2, 2, 0]), (9, 15, [0, 0, 3, 3]), (12, 15, [0, 0, 0, 3]), (3, 3, [0, 0, 0, 0]),
    ],
)  # fmt: skip
def test_the_parts_of_a_work(start: float, end: float, parts: list[float]) -> None:
    """Asked at 2 s, has its message at 3, has trained at 7, has come at 12."""
    work = Work(0, 1, 0, asked=2, received=3, trained=7, arrived=12)
    assert work.parts(start, end).tolist() == parts and sum(parts) == end - start


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


def test_traces_go_by_the_clock(tmp_path: Path) -> None:
    """Up 10 bit/s until 10 s, then 1 bit/s: a second round of 10 bits takes ten times as long."""
    (tmp_path / "t.csv").write_text("seconds,up,down\n0,10,1000\n10,1,1000\n1000,1,1000\n")
    links = parse(f"trace={tmp_path / 't.csv'}, compute=0s").links(1, 0, 0.0)

    def seconds(now: float) -> float:
        clock, work = Clock(links, now), Work(0, 1, 0, up_bits=10)
        clock.ask([work])
        return work.arrived - now

    assert [seconds(now) for now in (0.0, 10.0, 9.5)] == [1, 10, 0.5 + 5]

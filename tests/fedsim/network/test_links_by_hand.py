"""Links that are shared, that change and that stop, worked out by hand; and a clock that goes on.

Bits and rates are small numbers, so that most of the sums are exact.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import simpy

from fedsim.network import parse
from fedsim.network.flows import Flows, max_min
from fedsim.network.rates import Rate
from fedsim.network.running import Clock, Work
from fedsim.network.sharing import fair, left_at, transfers
from fedsim.network.traces import read_trace

TWO_SPEEDS = Rate((0.0, 3.0), (4.0, 1.0), period=6.0)
"""4 bit/s for 3 s, 1 bit/s for 3 s, again and again."""

GOES = Rate((0.0, 2.0), (0.0, 4.0))
"""Nothing for 2 s, 4 bit/s from then on."""


def constant(*values: float) -> list[Rate]:
    return [Rate.constant(value) for value in values]


@pytest.mark.parametrize(
    ("caps", "capacity", "rates"),
    [
        ([5, 5], 10, [5, 5]), ([3, 7], 10, [3, 7]), ([7, 3, 2], 12, [7, 3, 2]),  # just enough
        ([4, 4, 10], 12, [4, 4, 4]), ([10, 4, 1], 9, [4, 4, 1]), ([10, 1, 4], 12, [7, 1, 4]),
        ([6, 2, 6, 2], 10, [3, 2, 3, 2]), ([0, 0, 8], 4, [0, 0, 4]), ([8, 8], 0.5, [0.25, 0.25]),
        ([math.inf, 3], math.inf, [math.inf, 3]), ([math.inf, math.inf, 2], 8, [3, 3, 2]),
    ],
)  # fmt: skip
def test_fair_shares(caps: list[float], capacity: float, rates: list[float]) -> None:
    assert fair(np.array(caps, float), capacity).tolist() == rates


def test_a_step_in_the_middle_of_two_transfers() -> None:
    """6 bit/s for both. A, 14 bits from 0 s, has 4 alone; from 1 s, when B begins, both have 3.

    At 3 s A has 4 bits left, at 1 bit/s, and B 14 of 20, at 5 bit/s: B is done at 5.8 s. From 6 s A
    has 4 bit/s again, and 1 bit left: 6.25 s.
    """
    given = np.array([0.0, 1.0]), np.array([14, 20]), [TWO_SPEEDS, Rate.constant(10.0)], 6.0
    assert transfers(*given).tolist() == pytest.approx([6.25, 5.8], abs=1e-9)
    left = {0.5: [12, 20], 1: [10, 20], 2: [7, 17], 3: [4, 14], 5: [2, 4], 6.125: [0.5, 0],
            7: [0, 0]}  # fmt: skip
    for until, bits in left.items():
        assert left_at(until, *given).tolist() == pytest.approx(bits, abs=1e-9), until


def test_two_limits_and_a_start_in_the_middle() -> None:
    """9 bit/s for three of which B takes 2 at most. A and B from 0 s: 7 and 2; C from 2 s.

    From then on A and C have 3.5 each. A, of 21 bits, has 7 left: 4 s. C, of 21, has 14 left, at 7
    beside B: 6 s. B, of 18 bits, has 6 left at 6 s, and 2 bit/s still: 9 s.
    """
    given = np.array([0.0, 0.0, 2.0]), np.array([21, 18, 21]), constant(9, 2, 100), 9.0
    assert transfers(*given).tolist() == pytest.approx([4, 9, 6], abs=1e-9)
    assert left_at(3.0, *given).tolist() == pytest.approx([3.5, 12, 17.5], abs=1e-9)


def test_a_capacity_of_just_the_sum_is_no_limit() -> None:
    given = np.array([0.0, 1.0]), np.array([30, 20]), constant(6, 4)
    assert transfers(*given, 10.0).tolist() == transfers(*given, math.inf).tolist() == [5, 6]
    for until, left in {0.5: [27, 20], 1: [24, 20], 2: [18, 16], 5.5: [0, 2], 7: [0, 0]}.items():
        assert left_at(until, *given, 10.0).tolist() == left
        assert left_at(until, *given, math.inf).tolist() == left


def test_while_a_link_stands_still_the_other_has_it_all() -> None:
    """4 bit/s for both. B is done at 2 s, as A begins to move; C comes in between, and waits for B.

    B and C have 2 each from 1 s on; at 2 s B has 2 bits left, C 6, A 8: 4/3 each, B 3.5 s; then 2
    each: C has 4 left, and A 6: 5.5 s; A has 2 left, alone: 6 s.
    """
    two = transfers(np.zeros(2), np.array([8, 8]), [GOES, Rate.constant(4.0)], 4.0)
    assert two.tolist() == [4, 2]
    rates = [GOES, *constant(4, 4)]
    given = np.array([0.0, 0.0, 1.0]), np.array([8, 8, 8]), rates, 4.0
    assert transfers(*given).tolist() == pytest.approx([6, 3.5, 5.5], abs=1e-9)


def test_what_begins_while_its_link_stands_still_waits() -> None:
    again = Rate((0.0, 2.0, 3.0), (2.0, 0.0, 5.0), period=4.0)  # 2, 2, nothing and 5 bits a second
    starts, bits = np.array([2.25, 5.0, 6.5]), np.array([5, 9, 0])
    ends = [transfers(starts[i : i + 1], bits[i : i + 1], [again], math.inf)[0] for i in range(3)]
    assert ends == [4.0, 9.0, 6.5]  # 2 and 5 and 2 bits; what has no bits is there at once


def test_a_file_begins_again_after_a_step_as_long_as_the_one_before(tmp_path: Path) -> None:
    """Steps at 0, 2 and 5 s: the last lasts 3 s, too, and all comes again every 8 s.

    1 bit/s for 2 s, nothing for 3 and 3 bit/s for 3: 11 bits in 8 s, 13 by 10 s, and the last 7 of
    20 from 13 s on.
    """
    (tmp_path / "t.csv").write_text("seconds,up,down\n0,1,7\n2,0,8\n5,3,9\n")
    (up,), (down,) = read_trace(tmp_path / "t.csv").of(1)
    assert up.period == down.period == 8
    times = [0, 1.9, 2, 4.9, 5, 7.9, 8, 9.9, 10, 13, 15.9, 16, 80, 82, 85]
    assert [up.at(time) for time in times] == [1, 1, 0, 0, 3, 3, 1, 1, 0, 3, 3, 1, 1, 0, 3]
    assert [down.at(time) for time in times[:7]] == [7, 7, 8, 8, 9, 9, 7]
    changes = [up.next_change(time) for time in (0, 1, 2, 5, 7.9, 8, 9, 10, 15, 80, 84)]
    assert changes == [2, 2, 5, 8, 8, 10, 10, 13, 16, 82, 85]
    ends = transfers(np.array([0.0]), np.array([20]), [up], math.inf)
    assert ends.tolist() == pytest.approx([13 + 7 / 3], abs=1e-9)


def test_a_file_of_one_step_never_changes_and_others_share_a_row(tmp_path: Path) -> None:
    rows = ["0,0,1,2", "1,0,3,4", "1,5,5,6", "2,0,1,2", "*,0,3,4", "*,5,5,6", "4,0,1,2"]
    (tmp_path / "t.csv").write_text("\n".join(["client,seconds,up,down", *rows]))
    up, down = read_trace(tmp_path / "t.csv").of(5)
    assert up[0].is_constant and math.isinf(up[0].period) and up[0].next_change(3.0) == math.inf
    assert [rate.at(6.0) for rate in up] == [1, 5, 1, 5, 1]
    assert [rate.at(4.0) for rate in down] == [2, 4, 2, 4, 2] and up[1].period == 10


def test_a_round_of_two_clients_that_share_both_ways() -> None:
    """From 100 s. 10 bit/s down for both, client 1 taking 2 at most: 2.5 and 10 s for 20 bits each.

    Latencies of 0.5 and 1 s, each way; 3 iterations of 1 and 0.5 s. Client 0 has trained after 6 s,
    client 1 after 12.5 s. 6 bit/s up: client 0's 60 bits have 39 gone by then, and 21 left; both
    have 3: client 0 is through after 19.5 s. Client 1, of 30 bits, has 9 left: 21 s.
    """
    links = parse("server_up=6bit, server_down=10bit, compute=1s").links(2, 0, 0.0)
    links.down[1], links.latency[:], links.compute[:] = Rate.constant(2.0), [0.5, 1], [1, 0.5]
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


@pytest.mark.parametrize(
    ("paths", "capacity", "rates"),
    [
        (["as", "bs"], {"a": 2, "b": 3, "s": 5}, [2, 3]),  # just enough
        (["as", "bs"], {"a": 2, "b": 9, "s": 5}, [2, 3]),
        (["as", "bs", "cs"], {"a": 9, "b": 1, "c": 9, "s": 6}, [2.5, 1, 2.5]),
        (["xy", "x", "y"], {"x": 4, "y": 10}, [2, 2, 8]),
        (["xy", "x", "y"], {"x": 10, "y": 4}, [2, 8, 2]),
        (["xy", "yz", "zx"], {"x": 2, "y": 6, "z": 4}, [1, 3, 1]),
        (["ab", "ac", "bc"], {"a": 3, "b": 0, "c": math.inf}, [0, 3, 0]),
        (["a", "b"], {"a": math.inf, "b": 2}, [math.inf, 2]), ([], {}, []),
    ],
)  # fmt: skip
def test_rates_over_several_links(
    paths: list[str], capacity: dict[str, float], rates: list[float]
) -> None:
    """The links fill up together; a message stops at the first of its own that is full."""
    assert max_min(paths, {key: float(x) for key, x in capacity.items()}) == rates


def ends(messages: list[tuple[float, float, Sequence[str]]], rates: dict[str, Rate]) -> list[float]:
    """When each message is there: of a start, bits, and a path of links."""
    env = simpy.Environment()
    flows, found = Flows(env, rates), [math.nan] * len(messages)

    def send(place: int) -> simpy.events.ProcessGenerator:
        start, bits, path = messages[place]
        yield env.timeout(start)
        yield flows.send(bits, path)
        found[place] = env.now

    for place in range(len(messages)):
        env.process(send(place))
    env.run()
    return found


def test_messages_come_and_go_on_two_links() -> None:
    """a and b share s, 6 bit/s; b takes 2 at most. a's 20 bits from 0 s: 6 until 1 s, then 4.

    At 4 s a second message of a, 6 bits, joins: a has 2 left, all three have 2: a's first is there
    at 5 s, as b's 8 bits are. The second has 4 left, alone: 5 2/3 s. Nothing at all takes no time.
    """
    rates = {"a": Rate.constant(8.0), "b": Rate.constant(2.0), "s": Rate.constant(6.0)}
    messages = [(0.0, 20.0, "as"), (1.0, 8.0, "bs"), (4.0, 6.0, "as"), (4.5, 0.0, "as")]
    assert ends(messages, rates) == pytest.approx([5, 5, 5 + 2 / 3, 4.5], abs=1e-9)


def test_a_step_changes_the_rates_of_messages_under_way() -> None:
    """As for `transfers` above: a step at 3 s, and the first step again at 6 s."""
    rates = {"a": TWO_SPEEDS, "b": Rate.constant(10.0), "s": Rate.constant(6.0)}
    found = ends([(0.0, 14.0, "as"), (1.0, 20.0, "bs")], rates)
    assert found == pytest.approx([6.25, 5.8], abs=1e-9)


def test_a_message_waits_while_its_link_stands_still() -> None:
    """As for `transfers` above; a message without bits does not wait."""
    rates = {"a": GOES, "b": Rate.constant(4.0), "s": Rate.constant(4.0)}
    messages = [(0.0, 8.0, "as"), (0.0, 8.0, "bs"), (1.0, 8.0, "bs"), (0.5, 0.0, "as")]
    assert ends(messages, rates) == pytest.approx([6, 3.5, 5.5, 0.5], abs=1e-9)


def test_a_message_takes_the_upload_link_of_one_and_the_download_link_of_the_other() -> None:
    """Worker 0 pushes 6 bits to 1 and 6 to 2, 4 bit/s up; 2 takes 1 bit/s, of which a pull from 1
    has a half: 3 s for 1.5 bits. Then 2 has 1 bit/s for the push: 4.5 left, until 7.5 s. The push
    to 1 has the 3.5 bit/s that are left.
    """
    rates = {name: Rate.constant(x) for name, x in {"u0": 4, "u1": 9, "d1": 9, "d2": 1}.items()}
    messages = [(0.0, 6.0, ("u0", "d1")), (0.0, 6.0, ("u0", "d2")), (0.0, 1.5, ("u1", "d2"))]
    assert ends(messages, rates) == pytest.approx([6 / 3.5, 7.5, 3], abs=1e-9)

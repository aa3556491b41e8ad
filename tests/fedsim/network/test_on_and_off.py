"""Who is there when: times on and off in their shares and lengths, and what a round waits for.

Tolerances are four standard deviations of what an exponential draw gives; all seeds are fixed.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim import RunConfig, run
from fedsim.ground.errors import RunFailed
from fedsim.network.availability import Availability, OnOff, Presence, parse_availability
from fedsim.network.rates import ROUNDED, Rate
from tests.support.threes import give_links, last, table, threes

ON, OFF = 60.0, 20.0
SHARE = ON / (ON + OFF)
MANY = 2000


@pytest.fixture(scope="module")
def there() -> Presence:
    """Two thousand clients that are there for 60 s and away for 20 s in the mean."""
    return parse_availability("onoff(60s, 20s)").of(MANY, seed=1)


def lengths(client: OnOff, count: int) -> list[tuple[float, float]]:
    """Its first stretches: 1 or 0, and the seconds; the first one is what was left of it."""
    now, stretches = 0.0, []
    for _ in range(count):
        after = client.next_change(now)
        stretches.append((client.at(now), after - now))
        now = after
    return stretches


def test_three_quarters_are_there_at_any_time_and_from_the_beginning(there: Presence) -> None:
    tolerance = 4 * math.sqrt(SHARE * (1 - SHARE) / MANY)
    for time in (0.0, 1.0, 9.5, 33.0, 100.0, 1000.0):
        now, who = there.at(time, round_number=1, least=1, capacity=MANY)
        assert now == time and abs(len(who) / MANY - SHARE) < tolerance, time


def test_times_on_and_off_have_their_means_and_are_exponential(there: Presence) -> None:
    """Standard deviations are the means, and half of the times are shorter than ln 2 of these."""
    every = [pair for client in there.rates[:400] for pair in lengths(client, 12)[1:]]
    for state, mean in ((1.0, ON), (0.0, OFF)):
        times = np.array([seconds for which, seconds in every if which == state])
        assert len(times) > 2000
        near = 4 / math.sqrt(len(times))
        assert abs(times.mean() / mean - 1) < near
        assert abs(times.std() / mean - 1) < 2 * near  # its own deviation is sqrt(2) as large
        assert abs(np.mean(times < mean * math.log(2)) - 0.5) < near / 2


def test_what_is_left_of_the_first_stretch_is_as_long_as_any(there: Presence) -> None:
    """The run begins in the midst of things: an exponential time forgets how long it has lasted."""
    first = [lengths(client, 1)[0] for client in there.rates]
    for state, mean in ((1.0, ON), (0.0, OFF)):
        times = np.array([seconds for which, seconds in first if which == state])
        assert abs(times.mean() / mean - 1) < 4 / math.sqrt(len(times))


def test_clients_come_and_go_independently(there: Presence) -> None:
    """Of a thousand pairs, as many are there together as two coins say; so at another time."""
    for time in (0.0, 50.0):
        states = np.array([client.at(time) for client in there.rates]).reshape(-1, 2)
        both = states.prod(axis=1).mean()
        assert abs(both - SHARE**2) < 4 * math.sqrt(SHARE**2 * (1 - SHARE**2) / len(states))
    changes = {client.next_change(0.0) for client in there.rates}
    assert len(changes) == MANY


def test_a_seed_says_all_and_the_number_of_clients_nothing() -> None:
    def first(count: int, seed: int) -> list[float]:
        made = parse_availability("onoff(60s, 20s)").of(count, seed)
        return [client.next_change(100.0) for client in made.rates[:3]]

    assert first(3, 1) == first(50, 1) != first(3, 2)


def test_what_is_asked_first_changes_nothing() -> None:
    """Times are looked at in any order, as rounds wait and go on: the client's times stay."""
    client, other = OnOff(ON, OFF, key=9), OnOff(ON, OFF, key=9)
    times = np.linspace(0, 2000, 301)
    forward = [(client.at(t), client.next_change(t)) for t in times]
    assert forward[::-1] == [(other.at(t), other.next_change(t)) for t in times[::-1]]


def test_between_two_changes_nothing_changes() -> None:
    client, now = OnOff(ON, OFF, key=5), 0.0
    for _ in range(200):
        state, after = client.at(now), client.next_change(now)
        assert after > now
        just_before = after / ROUNDED**2
        assert client.at((now + after) / 2) == client.at(just_before) == state
        assert client.next_change(just_before) == after
        assert client.at(after) == client.at(math.nextafter(after, 0)) == 1 - state
        now = after


# Client 0 is there until 2 s and from 9 s, client 1 from 4 s, client 2 from 3 s to 6 s.
HANDMADE = [
    Rate((0.0, 2.0, 9.0), (1.0, 0.0, 1.0)),
    Rate((0.0, 4.0), (0.0, 1.0)),
    Rate((0.0, 3.0, 6.0), (0.0, 1.0, 0.0)),
]


def in_turn(round_number: int) -> Iterator[int]:
    return iter([2, 0, 1])


def test_clients_are_asked_in_turn_until_enough_are_there_and_free() -> None:
    made = Presence(HANDMADE, lambda *given: np.zeros(3), in_turn)
    assert made.at(5.0, 1, 1, 1)[1].tolist() == [2]
    assert made.at(5.0, 1, 2, 1, lambda now: [2])[1].tolist() == [1]  # two are there, one is free
    assert made.at(5.0, 1, 2, 2)[1].tolist() == [1, 2]


def test_of_many_clients_few_are_looked_at_and_all_alike() -> None:
    made = parse_availability("onoff(60s, 20s)").of(1_000_000, seed=0)
    found = [made.at(9.0 * number, number, 1, 100)[1] for number in range(1, 41)]
    assert all(len(who) == 100 for who in found)
    assert 4000 < made.rates._value.cache_info().currsize < 4000 / SHARE * 1.1
    mean = np.mean(np.concatenate(found)) / 1e6
    assert abs(mean - 0.5) < 4 / math.sqrt(12 * 4000)


@pytest.mark.parametrize(
    ("now", "least", "moment"),
    [
        (0.0, 1, (0.0, [0])),
        (0.0, 2, (4.0, [1, 2])),
        (2.0, 1, (3.0, [2])),
        (1.5, 2, (4.0, [1, 2])),
        (5.5, 2, (5.5, [1, 2])),
        (6.0, 2, (9.0, [0, 1])),
        (7.0, 1, (7.0, [1])),
        (9.0, 2, (9.0, [0, 1])),
    ],
)
def test_the_first_moment_at_which_enough_are_there(
    now: float, least: int, moment: tuple[float, list[int]]
) -> None:
    at, who = Presence(HANDMADE, lambda *given: np.zeros(3), in_turn).at(now, 1, least, 3)
    assert (at, who.tolist()) == moment


def test_what_never_comes_is_told() -> None:
    with pytest.raises(RunFailed, match="round 4: 3 clients"):
        Presence(HANDMADE, lambda *given: np.zeros(3), in_turn).at(0.0, 4, 3, 3)
    with pytest.raises(RunFailed, match="round 5: 1 clients .* never there at once .--avail"):
        Presence((), lambda *given: np.zeros(3), in_turn).at(7.0, 5, 1, 3)


def test_a_trace_s_rows_that_change_nothing_are_not_waited_for(tmp_path: Path) -> None:
    """All are away for three hours, told every second; the trace lasts as if all rows counted."""
    file, gone = tmp_path / "there.csv", 10_800
    rows = [f"{second},{int(second >= gone)}" for second in range(gone + 601)]
    file.write_text("\n".join(["seconds,available", *rows]))
    made = parse_availability(str(file)).of(2, seed=0)
    assert [made.rates[0].times, made.rates[0].period] == [(0.0, gone), gone + 601]
    assert made.at(3600.0, 1, 1, 2)[0] == gone
    file.write_text("\n".join(["seconds,available", *(f"{second},1" for second in range(9))]))
    assert parse_availability(str(file)).of(1, 0).at(5.0, 1, 1, 1)[0] == 5


def test_a_trace_is_waited_for_as_long_as_it_lasts(tmp_path: Path) -> None:
    """Client 0 comes and goes every second, for 20,000 of them; client 1 comes after three hours.

    What never comes is told when all has come again: client 2 is there only where client 1 is not.
    """
    rows = [f"0,{second},{second % 2}" for second in range(20_000)]
    rows += ["1,0,0", "1,10801,1", "1,19998,1", "1,19999,1"]
    rows += ["2,0,1", "2,10801,0", "2,19998,0", "2,19999,0"]
    (tmp_path / "there.csv").write_text("\n".join(["client,seconds,available", *rows]))
    made = parse_availability(str(tmp_path / "there.csv")).of(3, seed=0)
    now, who = replace(made, order=lambda number: iter([0, 1])).at(2.0, 1, 2, 2)
    assert (now, who.tolist()) == (10801, [0, 1])
    told = "2 clients (--min-replies) are never there at once from 2 s to 20002 s (--availability)"
    with pytest.raises(RunFailed, match=re.escape(told)):
        replace(made, order=lambda number: iter([1, 2])).at(2.0, 1, 2, 2)


def test_a_fraction_is_drawn_again_until_enough_are_there() -> None:
    """A fifth of ten: four are not there at once in most draws, and each wait is a draw of its own.

    Who is there is drawn anew in every round, from all clients alike.
    """
    made = Availability(fraction=0.2).of(10, seed=0)
    waited = [made.at(7.0, number, 4, 10) for number in range(1, 201)]
    assert all(now == 7.0 and len(who) >= 4 for now, who in waited)
    plain = [made.at(0.0, number, 0, 10)[1] for number in range(1, 1001)]
    counts = np.bincount([client for who in plain for client in who], minlength=10)
    assert (abs(counts - 200) < 4 * math.sqrt(1000 * 0.2 * 0.8)).all()


def test_a_round_may_be_of_late_updates_alone(
    make_task: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first round ends at its limit, 5 s, and client 1 is due at 7 s. Client 0 has left at 2 s:
    nobody is free, and the second round ends with client 1's update, which alone moves the model.

    Half-way to 16, and then half-way from 0 to 32: 8 + 16. Rounds of one iteration, 1 s long, and
    120 bits at 120 bit/s down.
    """
    give_links(monkeypatch, up=[60, 20])
    file = tmp_path / "there.csv"
    file.write_text("client,seconds,available\n0,0,1\n0,2,0\n0,500,0\n1,0,1\n")
    settings = {"network": "down=120bit, compute=1s", "availability": str(file), "iterations": 2}
    more = {"deadline": "5s", "late": "count", "min_replies": 1, "temporal": 1}
    task = make_task(**threes([16.0, 32.0]))
    run(RunConfig.of(task=task.name, method="raw", **settings, **more), tmp_path / "run")
    made = table(tmp_path / "run")
    assert made["sim_end_seconds"].tolist() == [5, 7]
    assert made[["clients", "late"]].to_numpy().tolist() == [[1, 0], [1, 1]]
    assert last(tmp_path / "run") == [24] * 3

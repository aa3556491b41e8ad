"""When a round is over, by hand, where some drop out and some are late; and what becomes of these.

Three clients, 120 bits a message: 0.5 s of latency each way, 2 s of training, a download of 1 s but
for the first model, and uploads of 1, 2 and 4 s. So they come 4, 5 and 7 s after the first round
has begun, and 5, 6 and 8 s after a later one. In round 2 client 0 drops out before it trains, in
round 3 client 1 after, and in round 5 client 2 before.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, run
from fedsim.network import Clock, Exchange, parse
from fedsim.network.cohorts import ClientDropout, Leaves, Rules
from fedsim.network.pricing import SECONDS
from tests.support.runs import clients
from tests.support.threes import give_links, last, table, threes

LEAVES: dict[int, dict[int, Leaves]] = {2: {0: "before"}, 3: {1: "after"}, 5: {2: "before"}}
GONE = {"before": "dropped out before training", "after": "dropped out after training"}


@pytest.fixture
def three(make_task: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The settings of the runs; who leaves is as said above."""

    def draw(
        self: ClientDropout, seed: int, number: int, clients: Iterable[int]
    ) -> dict[int, Leaves]:
        return {client: LEAVES.get(number, {}).get(client, "") for client in clients}

    monkeypatch.setattr(ClientDropout, "draw", draw)
    give_links(monkeypatch, up=[120, 60, 30])
    return {
        "task": make_task(**threes([16.0, 32.0, 64.0])).name,
        "method": "ef(raw)",
        "temporal": 2,
        "iterations": 10,
        "dropout": "before=0.1, after=0.1",
        "network": "down=120bit, latency=500ms, compute=1s",
    }


def used(folder: Path) -> list[list[int]]:
    """The clients whose update each round uses."""
    rows = clients(folder)
    there = rows[rows["samples"] > 0]
    return [sorted(there.loc[there["round"] == n, "client"]) for n in range(1, 6)]


def reasons(folder: Path) -> list[tuple[int, int, str]]:
    """Round, client and why, of every update that is not used."""
    rows = clients(folder)
    failed = rows[rows["failures"] > 0]
    return list(zip(failed["round"], failed["client"], failed["failure_reasons"], strict=True))


TIMES = [6.5, 6.5, 6.5, 6, 6.5]
"""With a deadline of 6.5 s.

1: client 2 would come at 7 s, and 6.5 s it is. 2: client 2 comes in it, at 7 s; client 0 is missed
until 13 s, though client 1 has come at 12.5 s. 3: client 0 at 18 s; client 1 is missed and client
2, due at 21 s, is late: 19.5 s. 4: client 2 is at work, nobody else is missed, and client 1 comes
at 25.5 s, before the limit. 5: client 2 is missed until 32 s, though client 1 has come at 31.5 s.
"""


@pytest.mark.parametrize("late", ["hold", "drop"])
def test_with_a_deadline_they_are_waited_for(
    late: str, three: dict[str, Any], tmp_path: Path
) -> None:
    """The model: 18 of (12 + 24) / 2, and 10.5 of client 1 alone: 28.5. Client 0 alone takes 9.375.

    In round 4 client 1 sends with 9.65625 what it trained in round 3 and never sent, 2.625; client
    0 sends -2.34375: 19.125 + 4.96875 = 24.09375. The fifth takes 0.0703125. What client 2 trained
    in rounds 1 and 3 comes late, and lies in its residual (48 + 26.625), or is dropped and counted.
    """
    run(RunConfig.of(**three, deadline="6.5s", late=late), tmp_path)
    rows = table(tmp_path)
    assert rows["sim_seconds"].tolist() == TIMES
    assert used(tmp_path) == [[0, 1], [1], [0], [0, 1], [0, 1]]
    over = "its update came when the round was over"
    assert reasons(tmp_path) == [
        (1, 2, over),
        (2, 0, GONE["before"]),
        (3, 1, GONE["after"]),
        (3, 2, over),
        (5, 2, GONE["before"]),
    ]
    assert rows["failed_up_bits"].tolist() == [0, 120, 0, 120, 0]  # where they arrive
    assert rows["lost"].tolist() == ([0, 1, 0, 1, 0] if late == "drop" else [0] * 5)
    assert rows["returned"].tolist() == [0, 0, 0, 1, 0]
    assert last(tmp_path) == [24.0234375] * 3


def test_what_comes_late_and_cannot_be_applied_is_one_failure(
    three: dict[str, Any], tmp_path: Path
) -> None:
    """Client 2's first update, of norm 48 sqrt(3), is late in round 1 and comes in round 2."""
    run(RunConfig.of(**three, deadline="6.5s", late="count", max_norm=50), tmp_path)
    rows, came = table(tmp_path), clients(tmp_path).set_index(["round", "client"])
    assert rows["failures"].tolist()[:2] == [1, 1] and rows["absent"].tolist()[:2] == [0, 0]
    assert came["failures"][1, 2] == 1 and came["failures"][2, 2] == 0
    assert "norm 83.1: at most 50" in came["failure_reasons"][2, 2]
    assert "norm 83.1: at most 50" in rows["failure_reasons"][1]
    assert rows["failed_up_bits"].tolist()[:2] == [0, 120] == [0, came["failed_up_bits"][2, 2]]


def test_the_parts_of_those_who_left_and_of_the_late(three: dict[str, Any], tmp_path: Path) -> None:
    """Each row sums to its round. A download and its latency are waited for; nothing goes up."""
    run(RunConfig.of(**three, deadline="6.5s"), tmp_path)
    rows = clients(tmp_path).set_index(["round", "client"])[list(SECONDS)]
    assert rows.loc[2, 0].tolist() == [1.5, 0, 0, 5]  # left before it trained
    assert rows.loc[3, 1].tolist() == [1.5, 2, 0, 3]  # left after
    assert rows.loc[1, 2].tolist() == [0.5, 2, 4, 0]  # the round ends while it sends
    assert rows.loc[2, 2].tolist() == [0, 0, 0.5, 6]  # and what was left of that
    assert rows.loc[2, 1].tolist() == [1.5, 2, 2.5, 0.5]
    means = table(tmp_path)[list(SECONDS)].to_numpy().tolist()
    assert means[1] == [1.5, 2, 2.5, 0.5] and means[0] == [0.5, 2, 2, 2]  # of those that are used


@pytest.mark.parametrize(
    ("deadline", "first", "arrivals", "missing", "end"),
    [
        (None, None, [12, 17], False, 17),
        (None, None, [12, 17], True, 17),
        (None, None, [], True, 10),
        (5, None, [], True, 15),
        (5, None, [12, 17], False, 15),
        (5, None, [12], True, 15),
        (5, None, [12], False, 12),
        (5, None, [12, 15], False, 15),
        (None, 2, [12, 17, 18], True, 17),
        (None, 3, [12, 17], True, 17),
        (5, 2, [12, 13, 17], False, 13),
        (5, 2, [12, 13], True, 13),
        (5, 2, [12, 17], True, 15),
        (5, 2, [12], True, 15),
        (5, 2, [12], False, 12),
        (5, 1, [12, 13], True, 12),
        (5, 1, [16], True, 15),
    ],
)
def test_ends_of_a_round_that_begins_at_10_s(
    deadline: float | None, first: int | None, arrivals: list[float], missing: bool, end: float
) -> None:
    """The first so many, the limit, or the last; where somebody is missed, the limit."""
    rules = Rules(deadline=deadline, first=first)
    clock: Clock[Exchange] = Clock(parse("compute=0s").links(len(arrivals), 0, 0.0), 10.0)
    coming = [Exchange(client, 1, compute_seconds=x - 10) for client, x in enumerate(arrivals)]
    clock.send(coming)
    limit = math.inf if deadline is None else 10 + deadline
    clock.wait(coming, rules.waits_for(len(coming), missing), limit)
    assert clock.now == end

"""Two ways to do the same, timed in turns."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

Way = Callable[[], Any]


@dataclass(frozen=True)
class Pair:
    """What is timed under a name: our way, and a peer's where one is known."""

    name: str
    ours: Way
    peer_name: str = ""
    peer: Way | None = None


def in_turns(
    ours: Way, theirs: Way | None, repeats: int, count: int, their_count: int
) -> dict[str, float | None]:
    """Nanoseconds an element: ours with its range, theirs, and the median of the ratios.

    One of ours and one of theirs in every repeat, so that what else the machine does hits both.
    """
    mine, peers = [], []
    for _ in range(repeats):
        mine.append(_timed(ours) / count)
        if theirs is not None:
            peers.append(_timed(theirs) / their_count)
    ratios = [b / a for a, b in zip(mine, peers, strict=False)]
    return {
        "ours": median(mine), "ours_min": min(mine), "ours_max": max(mine),
        "peer": median(peers) if peers else None, "ratio": median(ratios) if ratios else None,
    }  # fmt: skip


def _timed(work: Way) -> float:
    start = time.perf_counter_ns()
    work()
    return float(time.perf_counter_ns() - start)

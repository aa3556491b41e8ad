"""What the benchmarks share: two ways in turns, the machine in words, memory, CSV files."""

import csv
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fedsim.runs import environment

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
        mine.append(timed(ours) / count)
        if theirs is not None:
            peers.append(timed(theirs) / their_count)
    ratios = [b / a for a, b in zip(mine, peers, strict=False)]
    return {
        "ours": median(mine),
        "ours_min": min(mine),
        "ours_max": max(mine),
        "peer": median(peers) if peers else None,
        "ratio": median(ratios) if ratios else None,
    }


def timed(work: Way) -> float:
    """Nanoseconds of the processor in this thread: what other work takes is not counted."""
    start = time.thread_time_ns()
    work()
    return float(time.thread_time_ns() - start)


def machine(load_before: float) -> dict[str, Any]:
    """Where this is measured, with the load average before and now."""
    loads = {"load_before": load_before, "load_after": os.getloadavg()[0]}
    return environment.describe_environment() | loads


def said(where: Mapping[str, Any], how: str) -> str:
    """A machine in a sentence; ``how`` it was used: threads, repeats."""
    return (
        f"{where['processor']}, {where['cores']} cores, torch {where['packages']['torch']}, {how}; "
        f"load average {where['load_before']:.1f} before, {where['load_after']:.1f} after."
    )


def memory(name: str = "VmRSS") -> int:
    """Bytes of this process that are resident; ``VmHWM``: the most so far."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def family_of(pid: int) -> list[int]:
    """A process and all that it has started, directly or not, and that live."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            above = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        children.setdefault(above, []).append(int(path.parent.name))
    family = [pid]
    for member in family:  # grows while it is gone through
        family += children.get(member, [])
    return family


def end_family(pid: int) -> None:
    """Kills a process and all that it has started."""
    for member in family_of(pid):
        try:
            os.kill(member, signal.SIGKILL)
        except ProcessLookupError:
            continue


def forget_peak() -> None:
    """``VmHWM`` counts from here; raises ``OSError`` where the system does not know that."""
    Path("/proc/self/clear_refs").write_text("5")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> None:
    """All rows with the columns ``names``, or those that the first has."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names or list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)

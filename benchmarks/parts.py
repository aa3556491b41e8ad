"""What `bench.py` measures: the rows with a target, and a function per part."""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
Values = dict[str, Any]


@dataclass(frozen=True)
class Goal:
    """A row of the first table.

    Args:
        part: that measures it.
        work: of what it is.
        quantity: what the numbers are: times, copies, MB.
        before: what was found before the work began.
        target: what is asked for; None: nothing.
        least: whether the target is the least that is good enough; else it is the most.
    """

    part: str
    work: str
    quantity: str
    before: float | None
    target: float | None
    least: bool = False

    @property
    def bound(self) -> str:
        """As the CSV has it."""
        return "" if self.target is None else "at least" if self.least else "at most"


COPIES = {
    "sbc(0.01)": (7.5, 2.5),
    "topk(0.01) | cnat": (4.0, 1.5),
    "cnat": (7.2, 2.0),
    "qsgd(127)": (8.5, 2.5),
    "raw": (8.7, 1.1),
    "sparseloco": (23.0, 4.0),
    "eden": (33.0, 8.0),
}
PER_TENSOR = {"sbc(0.01)": (174.0, 79.0), "cnat": (69.0, 38.0)}
MEMORY = {"raw": (4.0, 2.0), "powersgd(2)": (5.0, 3.0), "sbc(0.01)": (3.0, 2.0)}
DIGITS = {
    "n = 1, sbc(0.01)": (2.78, 1.3),
    "n = 1, raw": (1.91, 1.3),
    "n = 10, sbc(0.01)": (1.32, 1.15),
}
GOALS = (
    Goal("round", "LeNet5, 4 clients, one worker beside the bare loop", "times", 1.16, 1.04),
    Goal("round", "LeNet5, 4 clients, two workers beside one", "times", 1.7, 1.9, least=True),
    Goal("round", "two bare loops at once, in a process each, beside one", "times", 1.96, None),
    Goal("peers4", "4 of 4 clients, two workers beside the fastest peer", "times", 1.22, 1.4,
         least=True),
    Goal("peers10", "10 of 100 clients, two workers beside the fastest peer", "times", 1.18, 1.4,
         least=True),
    Goal("peers10", "10 of 100 clients, one worker beside commit aee038d", "times", 0.97, 1.0,
         least=True),
    Goal("peers10", "10 of 100 clients, two workers beside commit aee038d", "times", 0.92, 1.0,
         least=True),
    *(Goal("digits", f"digits, {case}, beside a bare loop", "times (processor)", *numbers)
      for case, numbers in DIGITS.items()),
    *(Goal("message", f"ResNet-50's 161 tensors to bytes, {method}", "copies", *numbers)
      for method, numbers in COPIES.items()),
    Goal("message", "those tensors' bytes copied into new `bytes`", "copies", None, None),
    *(Goal("message", f"Python per tensor, {method}, {way}", "us", before, 10.0)
      for method, both in PER_TENSOR.items()
      for way, before in zip(("to bytes", "back"), both, strict=True)),
    *(Goal("message", f"peak memory, {method}", "updates", *numbers)
      for method, numbers in MEMORY.items()),
    Goal("first", "first sbc message in a fresh clone: compiling", "s (processor)", 22.0, 6.0),
    Goal("start", "a run of digits to the end of its first round", "s (processor)", 6.8, 3.0),
    Goal("start", "memory of that process then", "MB", 1130.0, 600.0),
    Goal("start", "`fedsim run` of that round, tables and report", "s (processor)", None, None),
    Goal("start", "memory of that process", "MB", None, None),
    Goal("start", "a sweep of two jobs, all its processes", "MB", 4100.0, 1500.0),
    Goal("many", "100,000 clients, cohort 20, first round", "s (processor)", 16.1, 1.0),
    Goal("many", "more memory than 100 clients", "MB", 450.0, 20.0),
    Goal("many", "a round beside one of 100 clients", "times (processor)", 1.37, 1.05),
    Goal("clients", "LeNet5 with Adam, memory per client ever seen, --memory 64MiB", "MB", 4.9,
         None),
    Goal("engine", "`--engine ray`, one worker, LeNet5: per message", "ms", 37.0, 12.0),
    Goal("engine", "the same, engine local", "ms", 6.3, None),
    Goal("soak", "10,000 rounds of digits: own memory at the end beside round 500", "times", 1.1,
         1.05),
    Goal("soak", "the last 500 rounds beside rounds 500 to 1,000", "times (processor)", None, 1.05),
    Goal("cells", "36 cells of digits, two jobs", "s", 300.0, 200.0),
    Goal("cells", "processor time of them", "s (processor)", 457.0, None),
)  # fmt: skip


def of_round() -> list[Values]:
    """A round of LeNet5 beside the bare loop, two workers beside one, and where the time goes."""
    import round as rounds  # beside this file, not the built-in

    result = rounds.measure(rounds.Settings(rounds=4, repeats=5))
    each = {name: row["repeats"] for name, row in result["milliseconds"].items()}

    def ratio(above: str, below: str) -> float:
        return median(a / b for a, b in zip(each[above], each[below], strict=True))

    rows = [
        {
            "work": "LeNet5, 4 clients, one worker beside the bare loop",
            "value": ratio(rounds.FEDSIM_1, rounds.BARE),
        },
        {
            "work": "LeNet5, 4 clients, two workers beside one",
            "value": ratio(rounds.FEDSIM_1, rounds.FEDSIM_2),
        },
        {
            "work": "two bare loops at once, in a process each, beside one",
            "value": median(2 * rounds.bare_at_once(1) / rounds.bare_at_once(2) for _ in range(3)),
        },
    ]
    for name, row in result["milliseconds"].items():
        told = {"ms": row["median"], "processor ms": row["processor"]}
        if name == rounds.FEDSIM_1:
            told |= {f"{part}, ms": ms for part, ms in result["parts_milliseconds"].items()}
        rows += [
            {"work": f"round: {name}", "quantity": q, "value": value} for q, value in told.items()
        ]
    return rows


def of_digits() -> list[Values]:
    """Rounds of the digits beside a bare loop: processor time, in turns, and where it goes."""
    import round as rounds

    rows = []
    for case in DIGITS:
        n, method = int(case.split(",")[0][4:]), case.split(", ")[1]
        settings = rounds.Settings(
            rounds=20 if n == 1 else 4, repeats=10, iterations=n, task="digits", method=method
        )
        result = rounds.measure(settings)
        first = result["ratios"][0]
        assert (first["of"], first["to"]) == (rounds.FEDSIM_1, rounds.BARE)
        rows.append({"work": f"digits, {case}, beside a bare loop", "value": first["processor"]})
        told = {
            f"{who}, processor ms": result["milliseconds"][name]["processor"]
            for who, name in (("bare loop", rounds.BARE), ("fedsim", rounds.FEDSIM_1))
        }
        told |= {f"{part}, ms": ms for part, ms in result["parts_milliseconds"].items()}
        rows += [{"work": case, "quantity": q, "value": value} for q, value in told.items()]
    return rows


def of_message() -> Values:
    """ResNet-50's update to bytes, Python per tensor, and the peak of memory."""
    import torch
    from message import into_new_memory, measured, memory_alone, update_of
    from targets import resnet50

    torch.set_num_threads(1)
    update, found = update_of(resnet50()), {}
    for method in COPIES:
        row = measured(method, update, 5)
        found[f"ResNet-50's 161 tensors to bytes, {method}"] = row["encode"]
        if method in PER_TENSOR:
            found[f"Python per tensor, {method}, to bytes"] = row["encode_us"]
            found[f"Python per tensor, {method}, back"] = row["decode_us"]
    found["those tensors' bytes copied into new `bytes`"] = into_new_memory(update, 5)["bytes"]
    return found | {f"peak memory, {method}": memory_alone(method) for method in MEMORY}


def of_first() -> Values:
    """What a first message compiles, in a process without a cache."""
    from message import compiling

    return {"first sbc message in a fresh clone: compiling": compiling("sbc(0.01)")}


def of_start() -> Values:
    """A run to its first round and to its end, and a sweep of two cells at once."""
    from startup import first_round, once, watched

    short, cells = "--temporal 1 --iterations 1", "--temporal 10 --gradient 0.01,0.1,1"
    rounds = [first_round("sbc(0.01)", {}) for _ in range(4)][1:]  # the first may compile
    with tempfile.TemporaryDirectory() as folder:
        runs = [once(f"run {short} --out {folder}/{i}", must=True) for i in range(3)]
        words = f"sweep {cells} --iterations 400 --jobs 2 --out {folder}/sweep".split()
        _, _, most = watched([sys.executable, "-m", "fedsim", *words])
    return {
        "a run of digits to the end of its first round": median(row[0] for row in rounds),
        "memory of that process then": max(row[1] for row in rounds),
        "`fedsim run` of that round, tables and report": median(run[1] for run in runs),
        "memory of that process": max(run[2] for run in runs),
        "a sweep of two jobs, all its processes": most,
    }


def of_many() -> Values:
    """100,000 clients beside 100."""
    from many import table

    few, many = table([100, 100_000], 10, 20)
    return {
        "100,000 clients, cohort 20, first round": many["first_round_seconds"],
        "more memory than 100 clients": many["peak_mb"] - few["peak_mb"],
        "a round beside one of 100 clients": many["round_seconds_ratio"],
    }


def of_clients() -> Values:
    """The peak after eight rounds of 20 of 1,000 LeNet5 clients over that of 20 of 20, each."""
    from client_memory import alone

    (few, least), (many, most) = (alone(n, "64MiB") for n in (20, 1000))
    (work,) = (goal.work for goal in GOALS if goal.part == "clients")
    return {work: (most - least) / (many - few) / 1e6}


def of_engine() -> Values:
    """What a round takes besides training, per client, with the engines ray and local."""
    import round as rounds

    return {
        "`--engine ray`, one worker, LeNet5: per message": rounds.per_message("ray"),
        "the same, engine local": rounds.per_message("local"),
    }


def of_million() -> list[Values]:
    """10^2 to 10^6 clients, the same cohort."""
    from many import SIZES, table

    names = {
        "round_seconds": "a round, processor s",
        "round_seconds_ratio": "of 100 clients'",
        "first_round_seconds": "first round, processor s",
        "peak_mb": "peak, MB",
        "peak_mb_ratio": "peak of 100 clients'",
    }
    return [
        {"work": f"{row['clients']:,}", "quantity": told, "value": row[name]}
        for row in table([*SIZES], 12, 100)
        for name, told in names.items()
    ]


def of_nodes() -> list[Values]:
    """A message on each engine, and where a machine is lost."""
    from nodes import measure

    names = {
        "message_ms": "a message, ms",
        "server_processor_ms": "server's processor of it, ms",
        "first_processor_s": "first round, server's processor s",
        "loss_round_s": "the round of the loss, s",
    }
    return [
        {"work": row["engine"], "quantity": told, "value": row[name]}
        for row in measure(64, None, 8, 3)
        for name, told in names.items()
    ]


def of_soak() -> list[Values]:
    """10,000 rounds: whether memory and rounds stay as they were."""
    from soak import measure

    rows, goals = measure(10_000, 500), [goal.work for goal in GOALS if goal.part == "soak"]
    found = [
        {"work": goals[0], "value": rows[-1]["own_mb"] / rows[0]["own_mb"]},
        {"work": goals[1], "value": rows[-1]["round_ms"] / rows[1]["round_ms"]},
    ]
    names = {
        "round_ms": "a round, processor ms",
        "stretch_seconds": "500 rounds, processor s",
        "own_mb": "own memory, MB",
    }
    return found + [
        {"work": f"{row['rounds']:,}", "quantity": told, "value": row[name]}
        for row in rows
        if row["rounds"] in (500, 1000, 2000, 5000, 10_000)
        for name, told in names.items()
    ]


def of_cells() -> Values:
    """A grid of six by six cells of the digits, two at once."""
    from startup import once

    grid = "--temporal 1,3,10,30,100,300 --gradient 1,0.3,0.1,0.03,0.01,0.003"
    with tempfile.TemporaryDirectory() as folder:
        seconds, processor, _ = once(
            f"sweep {grid} --iterations 1000 --jobs 2 --out {folder}/grid", must=True
        )
    return {"36 cells of digits, two jobs": seconds, "processor time of them": processor}


def of_peers(clients: int, size: int) -> list[Values]:
    """fedsim beside its peers, and beside the code of an older commit."""
    import compare

    some = clients > size
    listed = compare.contenders(compare.older(compare.BEFORE) if some else None)
    result = compare.measure(clients, size, 5 if some else 8, listed)
    setting, ours = f"{size} of {clients} clients", compare.OURS
    rows = [
        {
            "work": f"{setting}, two workers beside the fastest peer",
            "value": compare.beside_peers(result),
        },
    ]
    if some:
        words = {1: "one worker", 2: "two workers"}
        rows += [
            {
                "work": f"{setting}, {words[n]} beside commit {compare.BEFORE}",
                "value": compare.ratio(result, (ours, n), (compare.OLD, n)),
            }
            for n in words
        ]
    for row in result["rows"]:
        name = f"{setting}: {row['name']}, {row['processes']}"
        times = compare.ratio(result, (ours, 2), (row["name"], row["processes"]))
        told = {
            "rounds per second": row["rounds_per_second"],
            "processor s per round": row["processor_seconds"],
            "fedsim, two workers, beside it": times,
            "start and first round, s": row["start_seconds"],
        }
        rows += [{"work": name, "quantity": q, "value": value} for q, value in told.items()]
    gap = result["loss_disagreement"]
    rows.append({"work": setting, "quantity": "losses differ by", "value": gap})
    return rows


def of_sizes() -> list[Values]:
    """Messages of 10^4 to 10^8 entries."""
    import sizes

    return [
        {"work": f"{row['method']}, {row['entries']}", "quantity": name, "value": row[name]}
        for row in sizes.measure(sizes.SIZES, 3)
        for name in sizes.COLUMNS
    ]


PARTS: dict[str, Callable[[], Values | list[Values]]] = {
    "round": of_round,
    "peers4": lambda: of_peers(4, 4),
    "peers10": lambda: of_peers(100, 10),
    "digits": of_digits,
    "message": of_message,
    "first": of_first,
    "start": of_start,
    "many": of_many,
    "clients": of_clients,
    "engine": of_engine,
    "sizes": of_sizes,
    "million": of_million,
    "nodes": of_nodes,
    "soak": of_soak,
    "cells": of_cells,
}
LONG = ("million", "nodes", "soak", "cells")
"""Parts that may take more than three minutes, and are measured when they are named."""

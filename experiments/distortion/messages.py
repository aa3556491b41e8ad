"""The distortion D of messages, and the noise nu = D / (K R) that they leave at a place.

D is ||C(x) - x||^2 / ||x||^2 of a message from an empty memory, a mean over recorded updates x. A
place is a task with a budget of bits; there K clients send a message in each of R rounds. What
C(x) is comes from the payload alone.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from compressors import compress, decompress, parse
from experiments.common.tables import is_strength

from . import record

rows = import_module("experiments.like-for-like.rows")
stages = import_module("experiments.like-for-like.stages")
RESULTS = Path(rows.__file__).parent / "results"
"""Of like-for-like."""

UNBIASED = ("floats", "qsgd", "fedpaq", "natural", "eden", "uveqfed", "sketched")
"""Methods without a memory whose messages are unbiased."""

MEMORY = ("ef_sign", "powersgd", "topk", "ef21", "sbc", "stc", "sparseloco", "scalars")
"""Methods with error feedback, or EF21's estimate, and the mask of their own paper."""

METHODS = UNBIASED + MEMORY
PLACE = ["task", "budget"]


class Message(NamedTuple):
    """A method at a strength, after so many local iterations."""

    method: str
    strength: str
    n: int


def strengths(method: str) -> dict[str, Any]:
    """The strengths of a method by their text, from weak to strong; '' where it has none."""
    return {"" if x is None else str(x): x for x in rows.ROWS[method].strengths}


def finals(tasks: list[str]) -> pd.DataFrame:
    """The final runs of like-for-like within a budget, of the methods here; strengths as texts."""
    frame = pd.concat(
        [pd.read_csv(RESULTS / t / "finals.csv", dtype={"strength": str}) for t in tasks],
        ignore_index=True,
    )
    chosen = frame[(frame["budget"] < 1) & frame["method"].isin(METHODS)].reset_index(drop=True)
    texts = {method: strengths(method) for method in METHODS}
    spelled = [
        next(text for text, value in texts[method].items() if is_strength(strength, value))
        for method, strength in zip(chosen["method"], chosen["strength"], strict=True)
    ]
    return chosen.assign(strength=spelled)


def cells(runs: pd.DataFrame) -> pd.DataFrame:
    """A line per task, budget and method: rounds, delay and strength of its final runs."""
    columns = [*PLACE, "method", "rounds", "n", "strength"]
    return runs[columns].drop_duplicates().reset_index(drop=True)


def candidates(name: str, data: str | None) -> pd.DataFrame:
    """What a task's budgets allow each unbiased method: rounds, delay and strength of a line.

    Rounds are the powers of two with delays of ``LEAST_DELAY`` local iterations or more; strengths
    are those that like-for-like's tuning may draw at these rounds.
    """
    wanted = {method: rows.ROWS[method] for method in UNBIASED}
    scale = rows.SCALES["short"]
    plan = stages.Stages(name, rows.TASKS[name], wanted, scale, Path("none"), 0, data)
    lines = []
    for case in plan.cases():
        rounds = 1
        while rounds <= plan.iterations // stages.LEAST_DELAY:
            for place in plan.strengths(case, rounds):
                lines.append(
                    {
                        "task": name,
                        "budget": stages.two(case.budget, 3),
                        "method": case.method,
                        "rounds": rounds,
                        "n": plan.iterations // rounds,
                        "strength": [*strengths(case.method)][place],
                    }
                )
            rounds *= 2
    return pd.DataFrame(lines)


def measured(name: str, messages: set[Message], data: str | None) -> Iterator[dict[str, Any]]:
    """A line per message of a task: its distortion on each recorded update, and its mean bits."""
    task = rows.TASKS[name]
    delays = {message.n for message in messages}
    updates = record.recorded(record.dense(task, data), delays)
    for message in sorted(messages):
        text, _ = rows.ROWS[message.method].at(strengths(message.method)[message.strength])
        sent = [distortion(text, by_delay[message.n], i) for i, by_delay in enumerate(updates)]
        errors = {f"error_{i}": error for i, (error, _) in enumerate(sent)}
        bits = sum(bits for _, bits in sent) / len(sent)
        yield {"task": name, **message._asdict(), **errors, "bits": bits}


def distortion(text: str, update: record.Tensors, seed: int) -> tuple[float, int]:
    """The squared relative error of a first message, in float64, and its bits.

    Args:
        text: the method.
        update: x by tensor.
        seed: of the method's random choices.
    """
    method = parse(text)
    packet, _ = compress(method, update, seed=seed)
    decoded = decompress(method, packet.payload, update)
    error = norm = 0.0
    for name, x in update.items():
        a, b = x.to(torch.float64), decoded[name].to(torch.float64)
        error, norm = error + float((b - a).square().sum()), norm + float(a.square().sum())
    return error / norm, 8 * len(packet.payload)


def noise(lines: pd.DataFrame, distortions: pd.DataFrame) -> pd.DataFrame:
    """Lines of ``cells`` or ``candidates`` with D (``error``) and ``nu`` = D / (K R)."""
    columns = [f"error_{i}" for i in range(len(record.STARTS))]
    mean = distortions.assign(error=distortions[columns].mean(axis=1))
    on = ["task", "method", "strength", "n"]
    met = lines.merge(mean[[*on, "error"]], on=on, how="left", validate="many_to_one")
    counts = {name: task.cohort or task.clients for name, task in rows.TASKS.items()}
    return met.assign(nu=met["error"] / (met["task"].map(counts) * met["rounds"]))


def least(lines: pd.DataFrame) -> pd.DataFrame:
    """The line of the least ``nu`` of every place and method; of equals the first."""
    at = lines.groupby([*PLACE, "method"], sort=False)["nu"].idxmin()
    return lines.loc[at].reset_index(drop=True)

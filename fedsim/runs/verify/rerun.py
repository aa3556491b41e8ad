"""Rounds of a run once more, and whether they send and come to what they did."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedsim.federation.digests import DOWN, MODEL, UP
from fedsim.federation.storage import states_of
from fedsim.ground.errors import UsageError
from fedsim.ground.threads import one_thread
from fedsim.runs import checkpoint
from fedsim.runs.callbacks import Callback
from fedsim.runs.environment import describe
from fedsim.runs.run import check, grid_of, server_of
from fedsim.runs.verify.recorded import Recorded
from fedsim.runs.verify.stored import named
from fedsim.runs.verify.verdict import differ
from fedsim.settings.config import RunConfig

TOLERANCE = 0.05
"""How far losses and bits may be apart where another processor cannot give them bit for bit, as a
share of the recorded ones."""

_MACHINE = ("machine", "processor")
_PACKAGES = ("torch", "numpy", "numba")
_COMPARED = ("train_loss", "loss", "up_wire_bits", "down_wire_bits")


@dataclass(frozen=True)
class Span:
    """Which rounds are run again, from 1 on; ``last`` None: up to the run's last.

    Example:
        >>> Span.parse("all"), Span.parse("5"), Span.parse("6-8")
        (Span(first=1, last=None), Span(first=1, last=5), Span(first=6, last=8))
    """

    first: int
    last: int | None

    def end(self, recorded: Recorded) -> int:
        """The last of them that a run has."""
        done = len(recorded.rounds)
        return min(self.last or done, done)

    @classmethod
    def parse(cls, text: str) -> "Span":
        """From ``all``, a number of rounds or ``FIRST-LAST``; ``UsageError`` for another text."""
        if text == "all":
            return cls(1, None)
        first, dash, last = text.rpartition("-")
        numbers = [first, last] if dash else ["1", last]
        if all(x.isascii() and x.isdecimal() for x in numbers):
            low, high = map(int, numbers)
            if 1 <= low <= high:
                return cls(low, high)
        raise UsageError(
            f"--rerun is {text!r}: give all, a number of rounds as 5, or the first and last as 6-8"
        )


def elsewhere(folder: Path) -> str:
    """In what this machine is another than the one that a run names; empty where in nothing."""
    try:
        there = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "it is not known where the run was made"
    here = describe()
    pairs = [(name, there.get(name), here[name]) for name in _MACHINE]
    packages = there.get("packages", {})
    pairs += [(name, packages.get(name), here["packages"][name]) for name in _PACKAGES]
    return ", ".join(f"{name} {a} there, {b} here" for name, a, b in pairs if a != b)


def rerun(
    recorded: Recorded, config: RunConfig, span: Span, tolerance: float = 0.0
) -> Iterator[str]:  # fmt: skip
    """Where rounds that are run again differ from those that are recorded.

    They begin at the last checkpoint before them that the folder holds, else at round 1.

    Args:
        recorded: a run with digests.
        config: the run; its engine is not asked for, as all of them send the same.
        span: which rounds are compared.
        tolerance: 0: digests are compared; above: losses and bits, which may be apart by such a
            share of the recorded ones.
    """
    config = replace(config, machine=replace(config.machine, engine="local"))
    states, rounds = states_of(config), recorded.rounds.set_index("round").to_dict("index")
    last = span.end(recorded)
    with one_thread():
        check(config)
        before = checkpoint.before(recorded.folder, span.first)
        server, records = server_of(config, states, Callback(), None, before)
        with closing(grid_of(config, states)) as grid:
            server.open(grid)
            while not server.done and records.rounds_done < last:
                known, row = len(records.client_rows), server.step()
                if (number := row["round"]) < span.first:
                    continue
                if number not in rounds:
                    yield f"round {number}: it is not recorded"
                    return
                if tolerance:
                    yield from near(number, rounds[number], row, tolerance)
                    continue
                yield from same(recorded.clients_in(number), records.client_rows[known:])
                if row[MODEL] != rounds[number][MODEL]:
                    yield differ(f"round {number}: model", rounds[number][MODEL], row[MODEL])
                    return  # and so does every one after it
    if records.rounds_done < last:
        yield f"the run is over after round {records.rounds_done}, and {last} are recorded"


def same(recorded: list[dict[str, Any]], found: list[dict[str, Any]]) -> Iterator[str]:
    """Where the clients of a round, or the digests of their messages, are others."""
    one, other = ([row["client"] for row in rows] for rows in (recorded, found))
    if one != other:
        yield f"round {found[0]['round']}: clients {one} are recorded, and {other} were found"
        return
    for row, again in zip(recorded, found, strict=True):
        for column, what in ((DOWN, "payload sent to it"), (UP, "payload")):
            if row[column] != again[column]:
                yield differ(f"{named(row)}: {what}", row[column], again[column])


def near(
    number: int, recorded: Mapping[str, Any], found: Mapping[str, Any], tolerance: float
) -> Iterator[str]:  # fmt: skip
    """Where a round's losses or bits are further apart than ``tolerance``.

    Example:
        >>> same = dict.fromkeys(("train_loss", "loss", "down_wire_bits"), 1.0)
        >>> [*near(3, same | {"up_wire_bits": 100}, same | {"up_wire_bits": 106}, 0.05)]
        ['round 3: up_wire_bits is 100 there, and 106 here']
    """
    for name in _COMPARED:
        one, other = float(recorded[name]), float(found[name])
        if abs(one - other) > tolerance * abs(one):  # which of NaN is not said
            yield f"round {number}: {name} is {one:g} there, and {other:g} here"

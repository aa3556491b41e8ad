"""Who is there, and who leaves (docs/networks.md, "Cohorts as they are")."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.twin.draws import Draws
from tests.support.twin.network import Steps, between_commas, call, number, table


class Availability:
    """Which clients are there at the beginning of a round."""

    def __init__(self, text: str | float | None, draws: Draws) -> None:
        self.draws, self.everybody = draws, list(range(draws.clients))
        self.share: float | None = None
        self.steps: dict[int, Steps] | None = None
        self.states: dict[int, list[tuple[float, bool]]] | None = None
        if text is None:
            self.share = 1.0
        elif str(text).startswith("onoff"):
            self._on_off(*map(number, call(str(text))[1]))
        elif str(text).startswith("slots"):
            slots, seconds = map(number, call(str(text))[1])
            self.steps = {c: Steps(slot(c, int(slots), seconds)) for c in self.everybody}
        elif Path(str(text)).exists():
            rows = table(str(text), "available")
            self.steps = {c: Steps(rows[None if None in rows else c]) for c in self.everybody}
        else:
            self.share = float(text)

    def _on_off(self, on: float, off: float) -> None:
        self.states = {}
        for client in self.everybody:
            here, lasts = self.draws.on_off(client, on, off)
            time, self.states[client] = 0.0, []
            while time < 10_000 * (on + off) and len(self.states[client]) < 2_000:
                self.states[client].append((time, here))
                time, here = time + next(lasts), not here

    @property
    def by_clock(self) -> bool:
        """Whether the time says who is there, and not the round."""
        return self.share is None

    def by_chance(self, round_number: int, least: int, empty: Sequence[int]) -> list[int]:
        """Who is there in a round where that does not go by the clock: at least so many.

        ``empty``: whose battery is, and who is not there any more.
        """
        assert self.share is not None
        for attempt in range(1_000):
            chances = self.draws.there(round_number, attempt)
            there = [c for c in self.everybody if chances[c] < self.share and c not in empty]
            if len(there) >= least:
                return there
        raise RuntimeError("too few are ever there")

    def at(self, time: float) -> list[int]:
        """Who is there at a time of the clock."""
        if self.steps is not None:
            return [c for c in self.everybody if self.steps[c].at(time) == (1.0,)]
        assert self.states is not None
        return [c for c, s in self.states.items() if [here for t, here in s if t <= time][-1]]

    def is_enough(self, least: int, empty: Sequence[int]) -> bool:
        """Whether so many are there at once in a step of a period that all clients share."""
        steps = [] if self.steps is None else [*self.steps.values()]
        if len({s.period for s in steps}) != 1:
            return True
        times = {row[0] for s in steps for row in s.rows}
        return any(len({*self.at(time)} - {*empty}) >= least for time in times)

    def next(self, time: float) -> float:
        """When somebody comes or goes next."""
        if self.share is not None:
            return math.inf
        if self.steps is not None:
            return min(s.next(time) for s in self.steps.values())
        assert self.states is not None
        return min((t for s in self.states.values() for t, _ in s if t > time), default=math.inf)


def slot(client: int, slots: int, seconds: float) -> list[tuple[float, ...]]:
    """A client's rows of a frame: it is there in slot ``client`` modulo their number."""
    return [(k * seconds, float(k == client % slots)) for k in range(slots)]


def leaving(text: Any) -> tuple[float, float]:
    """``--dropout``: the probabilities to leave before and after training."""
    if text is None:
        return 0.0, 0.0
    if "=" not in str(text):
        return float(text), 0.0
    said = dict(s.split("=") for s in between_commas(str(text)))
    return float(said.get("before", 0)), float(said.get("after", 0))

"""``--network``: what each client's link carries, and how long its work takes."""

import csv
import math
from pathlib import Path

from tests.support.twin.draws import Draws

UNITS = {"mJ/bit": 1e-3, "mJ/FLOP": 1e-3, "kFLOP/s": 1e3, "FLOP/s": 1.0, "J": 1.0, "W": 1.0}
UNITS |= {"Gbit": 1e9, "Mbit": 1e6, "kbit": 1e3, "bit": 1.0, "ms": 1e-3, "min": 60.0, "s": 1.0}
SAME = 1e-12  # of a sum: what is nearer is the same time, or the same amount
STANDARD = {"up": math.inf, "down": math.inf, "latency": 0.0, "compute": 0.0}
SPENT = {"energy_up": 0.0, "energy_down": 0.0, "energy_compute": 0.0, "battery": math.inf}
MULTIPLIED = 2 * 2 * 8  # operations of a sample: forward and backward, 8 weights, times and plus


def number(text: str) -> float:
    """``5Mbit`` in bits, ``50ms`` in seconds."""
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    return float(text)


def below(value: float, bound: float) -> bool:
    """Whether a sum is below a bound by more than its rounding."""
    return value * (1 + SAME) < bound


def call(text: str) -> tuple[str, list[str]]:
    """``lognormal(5Mbit, 1)`` as its name and its arguments."""
    name, _, rest = text.partition("(")
    return name.strip(), [a.strip() for a in rest.rstrip(") ").split(",")] if rest else []


def between_commas(text: str) -> list[str]:
    """The settings of a text: commas within parentheses part nothing."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [f.strip() for f in found]


def table(path: str, *names: str) -> dict[int | None, list[tuple[float, ...]]]:
    """A CSV file's rows by client, or by None for all: ``seconds`` and the columns named."""
    rows: dict[int | None, list[tuple[float, ...]]] = {}
    for row in csv.DictReader(Path(path).read_text().splitlines()):
        client = int(row["client"]) if "client" in row else None
        rows.setdefault(client, []).append(tuple(float(row[n]) for n in ("seconds", *names)))
    return rows


class Steps:
    """Values that hold from so many seconds on, and begin again after the last.

    The last lasts as long as the one before it.
    """

    def __init__(self, rows: list[tuple[float, ...]]) -> None:
        self.rows = rows
        self.period = 2 * rows[-1][0] - rows[-2][0] if len(rows) > 1 else math.inf

    def turn(self, time: float) -> float:
        """When the turn began in which a time is: a moment at its end is in the next."""
        if math.isinf(self.period):
            return 0.0
        return math.floor(time / self.period + SAME) * self.period

    def at(self, time: float) -> tuple[float, ...]:
        """The values at a time."""
        began = self.turn(time)
        return [row[1:] for row in self.rows if began + row[0] <= time + SAME * (1 + time)][-1]

    def next(self, time: float) -> float:
        """When the next step is."""
        if math.isinf(self.period):
            return math.inf
        began = self.turn(time)
        times = [began + n * self.period + row[0] for n in (0, 1) for row in self.rows]
        return min(t for t in times if t > time + SAME * (1 + time))


class Network:
    """Rates in bits per second, times in seconds, by client."""

    def __init__(self, text: str, draws: Draws) -> None:
        self.said = dict(s.split("=", 1) for s in between_commas(text) if s)
        self.clients = draws.clients
        self.server = {way: number(self.said.get(f"server_{way}", "inf")) for way in ("up", "down")}
        self.values = {name: self._drawn(name, draws) for name in STANDARD}
        operations = MULTIPLIED * draws.batch_size
        if "FLOP" in self.said.get("compute", ""):
            self.values["compute"] = [operations / rate for rate in self.values["compute"]]
        self.spends = any(name in self.said for name in SPENT)
        self.joules = {name: self._drawn(name, draws) for name in SPENT}
        by_time = "FLOP" not in self.said.get("energy_compute", "")
        work = self.values["compute"] if by_time else [operations] * draws.clients
        self.joules["work"] = [
            a * b for a, b in zip(self.joules["energy_compute"], work, strict=True)
        ]
        self.trace: dict[int, Steps] | None = None
        if "trace" in self.said:
            rows = table(self.said["trace"], "up", "down")
            self.trace = {c: Steps(rows[None if None in rows else c]) for c in range(draws.clients)}

    def _drawn(self, name: str, draws: Draws) -> list[float]:
        kind, arguments = call(self.said.get(name, str((STANDARD | SPENT)[name])))
        if not arguments:
            return [number(kind)] * draws.clients
        return [float(x) for x in draws.link(name, kind, *map(number, arguments))]

    def varies(self) -> bool:
        """Whether clients differ, or their rates change."""
        return self.trace is not None or any("(" in text for text in self.said.values())

    def request(self, client: int, down: float, iterations: int | None, up: float | None) -> float:
        """Joules of a message to a client, its work and its reply; None: it leaves before."""
        spent = down * self.joules["energy_down"][client]
        spent += (iterations or 0) * self.joules["work"][client]
        return spent + (up or 0) * self.joules["energy_up"][client]

    def rate(self, way: str, client: int, time: float) -> float:
        """What a client's link carries at a time."""
        if self.trace is None:
            return self.values[way][client]
        return self.trace[client].at(time)[("up", "down").index(way)]

    def next_step(self, time: float) -> float:
        """When a rate changes next."""
        steps = self.trace.values() if self.trace else []
        return min((s.next(time) for s in steps), default=math.inf)

"""Controllers: n and p of every round and client (docs/controllers.md)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.support.twin.network import SAME, Network, call, number

REPORTED = 32  # bits of a number that a client reports
GUESS = 16  # bits per entry, before a client has sent any


@dataclass(frozen=True)
class Order:
    """What a client is told to do: local iterations, and the fraction (None: the method's own)."""

    n: int
    p: float | None
    bits: int = 0  # that tell it
    report: int = 0  # bits that the client reports beside its update


@dataclass
class Told:
    """What a controller knows before a round."""

    round: int
    iteration: int  # of the run, done
    seconds: float
    loss: float | None  # the mean training loss of the round before
    agreement: float | None  # the cosine of the last two global updates
    last: dict[int, tuple[int, int]]  # bits and entries of the last message, by client


class Controller:
    """``fixed``: n and p as typed.

    Args:
        settings: of the run.
        network: its links.
        arguments: of the controller's text, by place or by name.
    """

    names: tuple[str, ...] = ()  # of the arguments
    standard: dict[str, float] = {}
    report = 0

    def __init__(self, settings: dict[str, Any], network: Network, arguments: list[str]) -> None:
        self.settings, self.network = settings, network
        self.n, self.p = settings.get("temporal", 0), settings.get("gradient")
        self.steps_of: Callable[[int], int] | None = None  # of clients that train local epochs
        self.has_p = "{p}" in settings.get("method", "raw")
        given = dict(self.standard)
        for name, text in zip(self.names, arguments, strict=False):
            key, _, value = text.rpartition("=")
            given[key.strip() or name] = number(value.strip())
        self.given = given

    def orders(self, clients: list[int], told: Told) -> dict[int, Order]:
        """An order per client of the round."""
        self.look(told)
        return self.choose_all(clients, told)

    def choose_all(self, clients: list[int], told: Told) -> dict[int, Order]:
        """The orders, by what ``look`` has seen."""
        left = self.settings.get("iterations", 0) - told.iteration
        steps = 0
        if self.settings["task"].lr_steps:
            steps = width(told.iteration)
        found = {}
        for client in clients:
            n, p = self.choose(client, told)
            n = min(n, left) if self.steps_of is None else self.steps_of(client)
            bits = width(n) + (16 if self.has_p else 0) + steps
            found[client] = Order(n, three_digits(p) if self.has_p else None, bits, self.report)
        return found

    def look(self, told: Told) -> None:
        """At what is new."""

    def choose(self, client: int, told: Told) -> tuple[int, Any]:
        """n and p of a client."""
        return self.n, self.p


class Warmup(Controller):
    """Lin et al. 2018: p falls exponentially from ``first`` in so many rounds."""

    names, standard = ("rounds", "first"), {"first": 0.25}

    def choose(self, client: int, told: Told) -> tuple[int, Any]:
        share = min(1.0, (told.round - 1) / self.given["rounds"])
        first = self.given["first"]
        return self.n, max(self.p, first * (self.p / first) ** share)


class DelayFirst(Controller):
    """Sattler et al. 2018: dense after a long delay, then sparse after every iteration."""

    names, standard = ("at", "longest"), {"at": 0.0, "longest": 100}

    def choose(self, client: int, told: Told) -> tuple[int, Any]:
        iterations = self.settings["iterations"]
        steps = [s for s in self.settings["task"].lr_steps if s[0] < iterations]
        change = iterations * Fraction(str(self.given["at"]))
        if self.given["at"] == 0:
            change = steps[0][0] if steps else iterations / 2
        if told.iteration >= change:
            return 1, self.p / self.n
        left = max(1, round(change - told.iteration))
        n = min(round(self.n / self.p), int(self.given["longest"]), left)
        return n, min(1.0, n * self.p / self.n)


class Plateau(Controller):
    """n halves and p doubles where the training loss has not fallen for ``patience`` rounds."""

    names = ("patience", "factor", "better", "most")
    standard = {"patience": 10, "factor": 2, "better": 0.01, "most": 1}
    report = REPORTED

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.exact_n, self.best, self.bad = float(self.n), math.inf, 0

    def look(self, told: Told) -> None:
        if told.loss is None:
            return
        if told.loss < self.best * (1 - self.given["better"]):
            self.best, self.bad = told.loss, 0
            return
        self.bad += 1
        if self.bad >= self.given["patience"]:
            self.exact_n = max(1.0, self.exact_n / self.given["factor"])
            self.p = min(self.given["most"], self.p * self.given["factor"])
            self.best, self.bad = math.inf, 0

    def choose(self, client: int, told: Told) -> tuple[int, Any]:
        return max(1, round(self.exact_n)), self.p


class Link(Controller):
    """Each client the p whose upload takes so many seconds on its link."""

    names, standard = ("seconds", "least", "most"), {"least": 0.001, "most": 1}

    def choose(self, client: int, told: Told) -> tuple[int, Any]:
        bits = self.given["seconds"] * self.network.rate("up", client, told.seconds)
        sent, entries = told.last.get(client, (GUESS, 1))
        strategy = self.settings.get("strategy", "dsgd")
        travel = {"scaffold": 18}.get(strategy, 8 if "layers" in strategy else 9)
        p = bits / (sent / entries) / travel
        return self.n, min(self.given["most"], max(self.given["least"], p))


class Pace(Controller):
    """Each client as many local iterations as take so many seconds."""

    names, standard = ("seconds", "most"), {"most": 100}

    def choose(self, client: int, told: Told) -> tuple[int, Any]:
        n = math.floor(self.given["seconds"] / self.network.values["compute"][client] + SAME)
        return max(1, min(n, int(self.given["most"]))), self.p


class Noise(Controller):
    """n halves where the cosines of successive global updates sum to less than 0."""

    names, standard = ("burn", "least"), {"burn": 10, "least": 1}

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.sum, self.count = 0.0, 0

    def look(self, told: Told) -> None:
        if told.agreement is None:
            return
        self.sum, self.count = self.sum + told.agreement, self.count + 1
        if self.count >= self.given["burn"] and self.sum < 0:
            self.n = min(self.n, max(int(self.given["least"]), self.n // 2))
            self.sum, self.count = 0.0, 0


class AdaComm(Controller):
    """Wang & Joshi 2019, equations 16 and 17."""

    names, report = ("every",), REPORTED

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.first: float | None = None  # loss
        self.block = 0

    def look(self, told: Told) -> None:
        block = told.iteration // int(self.given["every"])
        if told.loss is not None and self.first is None:
            self.first = told.loss
        elif told.loss is not None and block > self.block:
            n = math.ceil(math.sqrt(told.loss / self.first) * self.settings["temporal"])
            self.n = n if n < self.n else max(1, self.n // 2)
        else:
            return
        self.block = block


CONTROLLERS: dict[str, type[Controller]] = {
    "fixed": Controller,
    "warmup": Warmup,
    "delay_first": DelayFirst,
    "plateau": Plateau,
    "link": Link,
    "pace": Pace,
    "noise": Noise,
    "adacomm": AdaComm,
}


def width(value: int) -> int:
    """Bits of a whole number: 8 up to 127, then 16."""
    return 8 if value <= 127 else 16


def three_digits(p: float) -> float:
    """As it travels."""
    return float(f"{p:.3g}")


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Of the angle between two updates."""
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def controller(settings: dict[str, Any], network: Network) -> Controller | None:
    """The controller of a run, if it has one."""
    if settings.get("controller") is None:
        return None
    name, arguments = call(settings["controller"])
    return CONTROLLERS[name](settings, network, arguments)

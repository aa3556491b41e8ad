"""Drawn triples: an algorithm, a feature of docs/pairs.md, and two features more.

Case k has pair k of those that docs/pairs.md allows and the twin has; the rest of it is drawn.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedsim import RunConfig, UsageError
from fedsim.federation import precheck
from tests.support.markdown import ROOT
from tests.support.twin.cases import ENERGIES, RATES, Drawn

TRIPLES = 5_000_000
"""Cases from this number on are triples."""

ALGORITHMS = {
    "dsgd": "dsgd", "fedavg": "fedavg", "fedadam": "fedadam", "nesterov": "nesterov",
    "diloco": "diloco",
    "scaffold": "scaffold", "fedprox": "dsgd", "gradients": "gradients", "fedbuff": "fedbuff",
    "fedasync": "fedasync", "sharded": "sharded", "ef21": "ef21", "marina": "marina",
    "diana": "diana", "fedper": "fedper(layers=bias)", "fedbabu": "fedbabu(layers=bias)",
    "median": "median", "trimmed mean": "trimmed_mean(0.4)", "krum": "krum(1)",
}  # fmt: skip
"""By its name in docs/pairs.md, a strategy that the twin has."""


class Triple(Drawn):
    """Adds the features that docs/pairs.md has, and ``cases`` has not."""

    def late_as(self, late: str) -> None:
        self.deadline()
        self.settings["late"] = late

    def long_deadline(self) -> None:
        self.needs_network()
        self.settings["deadline"] = "3.017s"

    def by_samples(self) -> None:
        self.settings["sampler"] = "weighted(samples)"
        self.settings["partition"] = self.one("linear", "linear", "iid")
        self.cohort()

    def by_stale_losses(self) -> None:
        self.cohort()
        s = self.settings
        d = int(self.rng.integers(max(s["cohort"], s.get("ask", 0)), s["clients"] + 1))
        s["sampler"] = f"power_of_choice({d}, stale=true)"
        s["partition"] = self.one("linear", "iid")

    def catch_up(self) -> None:
        self.downlink()
        self.settings["catch_up"] = True
        self.cohort()

    def several(self) -> None:
        self.settings |= {"temporal": self.one(2, 3), "iterations": self.one(12, 15)}

    def masking(self) -> None:
        self.momentum()
        self.settings["momentum_masking"] = "on"

    def forgets(self) -> None:
        if self.settings["strategy"] != "scaffold":  # which has no momentum
            self.momentum()
        self.settings["stateless"] = True

    def checkpoints(self) -> None:
        self.settings["checkpoint_every"] = self.one(1, 2)

    def by_weight(self) -> None:
        self.settings |= {"weighting": "samples", "partition": "linear"}

    def own_tests(self) -> None:
        self.settings["evaluate_clients"] = self.one(0.3, 0.5)

    def norms(self) -> None:
        bounds = (1e6,) if self.settings["strategy"] == "sharded" else (0.2, 0.4, 0.8, 1e6)
        self.settings["max_norm"] = self.one(*bounds)

    def traced(self) -> None:
        self.settings["network"] = (
            f"trace={self.trace()}, latency=15ms, compute=uniform(10ms, 60ms)"
        )

    def payloads(self) -> None:
        self.settings["keep_payloads"] = True

    def powered(self) -> None:
        self.settings["network"] = f"{self.one(*RATES)}, {self.one(*ENERGIES)}"
        self.settings["stop_at_joules"] = self.one("5J", 12.0, 25.0, 1e6)

    def battery(self) -> None:
        battery = self.one("battery=uniform(1J, 9J)", "battery=4J")
        self.settings["network"] = f"{self.one(*RATES)}, {self.one(*ENERGIES)}, {battery}"


FEATURES: dict[str, Callable[[Triple], None]] = {
    "late updates held": lambda case: case.late_as("hold"),
    "late updates dropped": lambda case: case.late_as("drop"),
    "late updates counted": lambda case: case.late_as("count"),
    "a deadline": Triple.long_deadline,
    "dropout": Triple.dropout,
    "over-sampling": Triple.ask,
    "availability": Triple.availability,
    "a minimum of replies": Triple.min_replies,
    "a cohort": Triple.cohort,
    "a sampler by samples": Triple.by_samples,
    "a sampler by stale losses": Triple.by_stale_losses,
    "a compressed downlink": Triple.downlink,
    "catch-up": Triple.catch_up,
    "a controller": Triple.controller,
    "n > 1": Triple.several,
    "FedProx's pull": Triple.proximal,
    "momentum masking": Triple.masking,
    "stateless clients": Triple.forgets,
    "checkpoints": Triple.checkpoints,
    "weights by samples": Triple.by_weight,
    "evaluation at clients": Triple.own_tests,
    "a bound on the norm": Triple.norms,
    "a trace of links": Triple.traced,
    "kept payloads": Triple.payloads,
    "energy": Triple.powered,
    "a battery": Triple.battery,
}
"""By its name in docs/pairs.md, what adds it to a case."""

MORE = ("step", "momentum", "server_lr", "stop", "evaluate", "staleness", "buffer_size", "sampler")
"""Features that docs/pairs.md has not, or has with other arguments."""


def pairs() -> list[tuple[str, str]]:
    """The pairs that docs/pairs.md allows and the twin has, in a drawn order."""
    with (ROOT / "docs" / "pairs.csv").open(encoding="utf-8", newline="") as file:
        allowed = [
            (row["algorithm"], row["feature"])
            for row in csv.DictReader(file)
            if not row["refusal"] and row["algorithm"] in ALGORITHMS and row["feature"] in FEATURES
        ]
    return [allowed[i] for i in np.random.default_rng(20_26).permutation(len(allowed))]


def triple(number: int, folder: Path) -> dict[str, Any]:
    """The settings of triple 0, 1, ...; its files go into a folder."""
    allowed = pairs()
    algorithm, feature = allowed[number % len(allowed)]
    for attempt in range(1_000):
        drawn = Triple(np.random.default_rng([20_26, number, attempt]), folder)
        drawn.base((ALGORITHMS[algorithm],))
        if algorithm == "fedprox":
            drawn.proximal()
        if algorithm in ("trimmed mean", "krum"):
            drawn.settings["clients"] = drawn.one(5, 6)
        others = [name for name in (*FEATURES, *MORE) if name != feature]
        for name in drawn.rng.choice(others, 2, replace=False):
            add(drawn, name)
        before = dict(drawn.settings)
        add(drawn, feature)
        wanted = {k: v for k, v in drawn.settings.items() if k not in before or before[k] != v}
        drawn.settle()
        if any(drawn.settings.get(k) != v for k, v in wanted.items() if k not in ("method",)):
            continue  # another feature went over it
        try:
            precheck.check_trainable(RunConfig.of(**drawn.settings))
        except UsageError:
            continue
        return drawn.settings
    raise RuntimeError(f"triple {number} ({algorithm}, {feature}): nothing that fedsim takes")


def add(drawn: Triple, name: str) -> None:
    """Adds a feature by its name."""
    if name in FEATURES:
        FEATURES[name](drawn)
    else:
        getattr(drawn, name)()

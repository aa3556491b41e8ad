"""Drawn cases: a small run, and two to four settings that shape it."""

from pathlib import Path
from typing import Any

import numpy as np

from fedsim import RunConfig, UsageError
from tests.support.twin import task

TOPK = "topk({p}) | float32 | bitmap"
DENSE = ("raw", "ef(raw)")
SPARSE = (TOPK, f"ef({TOPK})")
ROUNDS = ("nesterov", "fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi", "scaffold")
ADAPTIVE = ("fedadagrad", "fedadam", "fedyogi")
GRADIENTS = ("gradients", "marina", "sharded")
WITHOUT_WAITING = ("fedbuff", "fedasync", "sharded")
STRATEGIES = ("dsgd",) * 9 + ROUNDS + ("ef21", "diana") + GRADIENTS + ("fedbuff", "fedasync") * 2
DOWNLINKS = ("float32", "topk(0.5) | float32 | bitmap", "ef(topk(0.3) | float32 | bitmap)")
DOWNLINKS += ("ef(topk(0.1) | float32 | bitmap)",)
LINKS = (
    "up=2kbit, down=4kbit, latency=20ms, compute=30ms",
    "up=lognormal(2kbit, 0.5), down=4kbit, latency=uniform(10ms, 90ms), compute=uniform(20ms,0.2s)",
    "up=uniform(200bit, 2kbit), down=lognormal(3kbit, 1), compute=lognormal(50ms, 0.5)",
    "up=1kbit, latency=lognormal(30ms, 0.7), compute=uniform(10ms, 100ms)",
    "compute=50ms",
)
CONTROLLERS = (
    "fixed", "warmup(4)", "warmup(6, first=0.5)", "delay_first", "delay_first(at=0.3, longest=5)",
    "plateau(1, 2, 0.3)", "plateau(2)", "link(0.1)", "link(0.3, least=0.2, most=0.6)", "pace(0.3)",
    "pace(0.6, most=4)", "noise(1)", "noise(2, least=2)", "adacomm(4)", "adacomm(9)",
)  # fmt: skip


RATES = (
    "up=2kbit, down=4kbit, latency=20ms, compute=lognormal(4kFLOP/s, 0.3)",
    "up=uniform(200bit, 2kbit), down=4kbit, compute=uniform(20ms, 0.2s)",
    "up=lognormal(2kbit, 0.5), down=4kbit, latency=uniform(10ms, 90ms), compute=3kFLOP/s",
)
ENERGIES = (
    "energy_up=2mJ/bit, energy_compute=5W",
    "energy_up=lognormal(2mJ/bit, 0.3), energy_down=1mJ/bit, energy_compute=uniform(1W, 9W)",
    "energy_down=lognormal(1mJ/bit, 0.5), energy_compute=uniform(1mJ/FLOP, 3mJ/FLOP)",
)


COMPOSED = 1_000_000
"""Cases from this number on are compositions: FedProx around an algorithm with local steps."""
EPOCHS = 2_000_000
"""Cases from this number on train local epochs, around an algorithm with local steps."""
TIMED = 2_500_000
"""Cases from this number on train for a time, around an algorithm with local steps."""
SAMPLED = 3_000_000
"""Cases from this number on have a sampler, and mostly a cohort that it draws."""
POWERED = 4_000_000
"""Cases from this number on have energy in their network, and mostly batteries or a limit."""
SLOTTED = 6_000_000
"""Cases from this number on have slots; every second has secure aggregation, too."""
INSIDE = tuple(name for name in dict.fromkeys(STRATEGIES) if name not in GRADIENTS)


class Drawn:
    """What a case is made of; each method adds a feature."""

    def __init__(self, rng: np.random.Generator, folder: Path) -> None:
        self.rng, self.folder = rng, folder
        self.settings: dict[str, Any] = {}

    def one(self, *choices: Any) -> Any:
        """One of them."""
        return choices[int(self.rng.integers(len(choices)))]

    def base(self, strategies: tuple[str, ...] = STRATEGIES) -> None:
        """Task, strategy, method, size."""
        s = self.settings
        s["task"], s["seed"] = task.PLAIN, int(self.rng.integers(1000))
        s["strategy"] = self.one(*strategies)
        s["method"] = self.one(*DENSE, *SPARSE)
        if s["strategy"] == "ef21":
            s["method"] = self.one("ef21(raw)", f"ef21({TOPK})")
        if s["strategy"] == "diana":
            s["method"] = "diana(raw)"
        if s["strategy"] == "marina":
            s["method"] = self.one("marina(raw, 0.5)", "marina(raw, 0.2)")
        if "{p}" in s["method"]:
            s["gradient"] = self.one(0.1, 0.3, 0.5)
        s["clients"] = self.one(3, 4, 5, 6)
        s["temporal"] = 1 if s["strategy"] in GRADIENTS else self.one(1, 2, 2, 3)
        s["iterations"] = s["temporal"] * self.one(6, 8, 10) + self.one(0, 0, 0, 1)
        s["partition"] = self.one("iid", "iid", "contiguous", "linear")
        s["batch_size"] = self.one(2, 3, 5)
        if s["strategy"] in WITHOUT_WAITING:
            self.network()

    def epochs(self) -> None:
        """Whole epochs of each client's samples, in place of iterations."""
        del self.settings["temporal"], self.settings["iterations"]
        self.settings |= {"rounds": self.one(4, 6), "local_epochs": self.one(1, 1, 2)}
        self.settings["partition"] = self.one("linear", "linear", "iid")

    def seconds(self) -> None:
        """What fits into a time, in place of iterations."""
        del self.settings["temporal"], self.settings["iterations"]
        self.settings |= {"rounds": self.one(4, 6), "local_seconds": self.one("0.11s", 0.3, "70ms")}
        self.settings["partition"] = self.one("linear", "iid")
        self.needs_network()

    def network(self) -> None:
        """Links that are alike, or vary, or follow a trace, and what the server shares."""
        waits = self.settings["strategy"] not in WITHOUT_WAITING
        links = self.one(*(LINKS if waits else LINKS[:-1]))
        if self.rng.random() < 0.25:
            links = f"trace={self.trace()}, latency=15ms, compute=uniform(10ms, 60ms)"
        if self.rng.random() < 0.35 and self.settings["strategy"] != "sharded":
            links += self.one(", server_up=2kbit, server_down=5kbit", ", server_up=1500bit")
        self.settings["network"] = links

    def needs_network(self) -> None:
        """Where time decides."""
        if "network" not in self.settings:
            self.network()

    def csv(self, name: str, lines: list[str]) -> Path:
        """A file of the case."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text("\n".join(lines) + "\n")
        return self.folder / name

    def trace(self) -> Path:
        """Rates that change, of all or of each client."""
        each, lines = self.rng.random() < 0.5, []
        for client in range(self.settings["clients"] if each else 1):
            times = np.cumsum([0.0, *self.rng.uniform(0.1, 0.6, self.rng.integers(0, 4))])
            for seconds in times:
                up, down = self.rng.uniform(300, 4000, 2)
                place = f"{client}," if each else ""
                lines.append(f"{place}{seconds:.3f},{up:.1f},{down:.1f}")
        return self.csv("links.csv", ["client," * each + "seconds,up,down", *lines])

    def there(self) -> Path:
        """When clients are there, all or each."""
        each, lines = self.rng.random() < 0.7, []
        for client in range(self.settings["clients"] if each else 1):
            times = np.cumsum([0.0, *self.rng.uniform(0.3, 1.2, self.rng.integers(1, 5))])
            for number, seconds in enumerate(times):
                here = (number + (client if each else 0)) % 2
                place = f"{client}," if each else ""
                lines.append(f"{place}{seconds:.3f},{1 - here}")
        return self.csv("there.csv", ["client," * each + "seconds,available", *lines])

    def cohort(self) -> None:
        self.settings["cohort"] = int(self.rng.integers(1, self.settings["clients"]))

    def step(self) -> None:
        self.settings["task"] = task.STEPPED

    def momentum(self) -> None:
        self.settings["momentum"] = self.one(0.5, 0.9)
        self.settings["lr"] = 0.02
        if self.rng.random() < 0.3:
            self.settings["momentum_masking"] = self.one("on", "off")

    def proximal(self) -> None:
        self.settings["proximal"] = self.one(0.1, 1.0)

    def weighting(self) -> None:
        self.settings |= {"weighting": self.one("samples", "nova"), "partition": "linear"}

    def downlink(self) -> None:
        self.settings["downlink"] = self.one(*DOWNLINKS)
        if self.settings["strategy"] not in WITHOUT_WAITING and self.rng.random() < 0.5:
            self.settings["catch_up"] = True

    def availability(self) -> None:
        kind = self.one(0.4, 0.7, "onoff(0.5s, 0.5s)", "onoff(1s, 0.4s)", "csv", "csv")
        if isinstance(kind, str):
            self.needs_network()
        self.settings["availability"] = str(self.there()) if kind == "csv" else kind

    def dropout(self) -> None:
        self.settings["dropout"] = self.one(0.2, "before=0.1, after=0.2", "before=0, after=0.4")

    def slots(self) -> None:
        """Time division; and what the sampler asks for costs energy."""
        self.needs_network()
        self.settings["availability"] = self.one(
            "slots(2, 0.7s)", "slots(3, 410ms)", "slots(1, 1s)"
        )
        if self.settings["strategy"] != "sharded" and self.rng.random() < 0.3:
            self.settings["sampler"] = "weighted(samples)"
            self.settings["network"] = f"{self.one(*RATES)}, {self.one(*ENERGIES)}"

    def masked(self) -> None:
        """Secure aggregation of few bits: a step is far above the roundings of float32."""
        bits, p = self.one(3, 4, 5), self.one(1.0, 1.0, 0.5)
        weighted = self.rng.random() < 0.5
        weight, modulus = (5, 24) if weighted else (0, 16)
        self.settings |= {
            "strategy": self.one("secagg", "secagg(0)", "secagg(0.3)"),
            "method": f"secagg({bits}, {self.one(0.2, 0.5)}, {modulus}, {p}, {weight})",
        }
        self.settings.pop("gradient", None)
        if weighted:
            self.settings |= {"weighting": "samples", "partition": "linear"}

    def late(self) -> None:
        self.settings["late"] = self.one("hold", "drop", "count")

    def settle(self) -> None:
        """What goes with everything else."""
        s = self.settings
        if s["method"].startswith("ef(") and s["clients"] % 2:
            s["method"] = s["method"][:-1] + ", mask=true)"
        waits = s["strategy"] not in WITHOUT_WAITING
        if waits and "controller" in s and s.get("late") == "count":
            s["late"] = self.one("hold", "drop")
        shaped = {"downlink", "dropout", "deadline", "availability", "ask", "controller"} & {*s}
        if s["strategy"] == "sharded" or s["strategy"] in WITHOUT_WAITING and shaped:
            s["network"] = s["network"].replace(LINKS[0], LINKS[1])  # else roundings order updates
        if s["strategy"] in ADAPTIVE and "topk" in s.get("downlink", ""):
            s["downlink"] = "float32"  # their steps are alike, and roundings choose the largest
        if s["strategy"].startswith("secagg") and "topk" in s.get("downlink", ""):
            s["downlink"] = "float32"  # multiples of a step are alike in magnitude
        if s["strategy"] == "sharded" and "topk" in s.get("downlink", ""):
            s["method"] = self.one(*DENSE)  # else a part has changed by roundings alone
            s.pop("gradient", None)

    def deadline(self) -> None:
        self.needs_network()
        self.settings["deadline"] = self.one("0.253s", "407ms", "0.613s", "1.019s")
        self.late()

    def ask(self) -> None:
        self.needs_network()
        clients = self.settings["clients"]
        self.settings["cohort"] = int(self.rng.integers(1, clients))
        self.settings["ask"] = int(self.rng.integers(self.settings["cohort"] + 1, clients + 1))
        self.late()

    def min_replies(self) -> None:
        self.one(self.availability, self.dropout, self.deadline)()
        self.settings["min_replies"] = self.one(1, 2)

    def stop(self) -> None:
        self.settings["stop_at_bits"] = self.one("500bit", "1kbit", "1248bit", 2000.0)

    def evaluate(self) -> None:
        self.settings["evaluate_every"] = self.one(2, 3, 5)

    def controller(self) -> None:
        self.settings["controller"] = self.one(*CONTROLLERS)
        name = self.settings["controller"].split("(")[0]
        if name in ("link", "pace"):
            self.needs_network()
        takes_any = self.settings["strategy"] in ("dsgd", *ROUNDS, "fedbuff", "fedasync")
        if name in ("warmup", "delay_first", "plateau", "link") and takes_any:
            self.settings |= {"method": self.one(*SPARSE), "gradient": self.one(0.1, 0.3)}

    def server_lr(self) -> None:
        self.settings["server_lr"] = self.one(0.3, 0.9)

    def staleness(self) -> None:
        self.settings["staleness"] = self.one("constant", "polynomial(1)", "hinge(2, 1)")

    def sampler(self) -> None:
        self.settings["sampler"] = self.one("weighted(samples)", "link(fastest)")
        self.settings["partition"] = self.one("linear", "linear", "iid", "contiguous")
        if self.settings["sampler"] == "link(fastest)":
            self.needs_network()
        if self.rng.random() < 0.8:
            self.cohort()

    def energy(self) -> None:
        """What messages and work cost, and who has how much."""
        text = f"{self.one(*RATES)}, {self.one(*ENERGIES)}"
        kind = self.one("battery", "battery", "limit", "both", "none")
        if kind in ("battery", "both"):
            text += self.one(", battery=uniform(1J, 9J)", ", battery=4J")
        if kind in ("limit", "both"):
            self.settings["stop_at_joules"] = self.one("5J", 12.0, 25.0)
        self.settings["network"] = text

    def buffer_size(self) -> None:
        self.settings["buffer_size"] = self.one(1, 2, 3, 7)


OFTEN = ("network", "cohort", "downlink", "availability", "dropout", "deadline", "ask")
OFTEN += ("controller", "controller")
FEATURES = (*OFTEN, *OFTEN, "step", "momentum", "proximal", "weighting", "min_replies", "stop")
FEATURES += ("evaluate", "server_lr")
WITHOUT_ROUNDS = ("cohort", "downlink", "step", "momentum", "proximal", "stop", "evaluate")
WITHOUT_ROUNDS += ("server_lr", "staleness", "availability", "dropout", "deadline", "ask")
WITHOUT_ROUNDS += ("min_replies", "controller", "controller")
POOLS = {
    "fedbuff": (*WITHOUT_ROUNDS, "buffer_size", "buffer_size", "weighting"),
    "fedasync": WITHOUT_ROUNDS,
    "sharded": (
        "downlink",
        "downlink",
        "step",
        "momentum",
        "stop",
        "evaluate",
        "cohort",
        "ask",
        "dropout",
        "availability",
        "deadline",
        "deadline",
        "min_replies",
    ),
    "marina": ("network", "downlink", "step", "momentum", "stop", "evaluate", "weighting"),
}


def case(number: int, folder: Path) -> dict[str, Any]:
    """The settings of a case, as ``RunConfig`` takes them; its files go into a folder."""
    from tests.support.twin.triples import TRIPLES, triple

    if TRIPLES <= number < SLOTTED:
        return triple(number - TRIPLES, folder)
    for attempt in range(1_000):
        drawn = Drawn(np.random.default_rng([20_24, number, attempt]), folder)
        sampled, powered = SAMPLED <= number < POWERED, number >= POWERED
        inside, epochs = COMPOSED <= number < SAMPLED, EPOCHS <= number < SAMPLED
        slotted, masked = number >= SLOTTED, number >= SLOTTED and number % 2 == 1
        sampled, powered = sampled and not slotted, powered and not slotted
        whole = not (sampled or powered)
        strategies = tuple(name for name in STRATEGIES if name != "sharded" or whole)
        drawn.base(("dsgd",) if masked else INSIDE if inside else strategies)
        if slotted:
            drawn.slots()
        if masked:
            drawn.masked()
        if TIMED <= number < SAMPLED:
            drawn.seconds()
        elif epochs:
            drawn.epochs()
        elif inside:
            drawn.proximal()
        if sampled:
            drawn.sampler()
        pool = POOLS.get(drawn.settings["strategy"], FEATURES)
        if slotted:
            pool = tuple(name for name in pool if name not in ("network", "availability"))
        if powered:
            drawn.energy()
            pool = tuple(name for name in pool if name != "network")
        count = drawn.one(2, 2, 3, 3, 4)
        for name in drawn.rng.choice(sorted(set(pool)), count, replace=False, p=weights(pool)):
            getattr(drawn, name)()
        drawn.settle()
        try:
            RunConfig.of(**drawn.settings)
        except UsageError:
            continue
        return drawn.settings
    raise RuntimeError(f"case {number}: nothing that fedsim takes")


def weights(pool: tuple[str, ...]) -> list[float]:
    """How often each of a pool's features is drawn."""
    return [pool.count(name) / len(pool) for name in sorted(set(pool))]


def features(settings: dict[str, Any]) -> list[str]:
    """What a case has, in words that many cases share."""
    found = []
    for name, value in settings.items():
        if name in ("seed", "clients", "iterations", "batch_size", "gradient", "lr", "temporal"):
            continue
        if name == "rounds":
            continue
        word = value.name if name == "task" else str(value)
        if "/" in word and (name != "network" or "trace=" in word):
            word = "trace" if name == "network" else "csv"
        elif name == "network":
            word = "varies" if "(" in word else "alike"
        elif name not in ("method", "downlink"):
            word = word.split("(")[0].split("=")[0]
        if name in ("cohort", "ask", "deadline", "stop_at_bits", "stop_at_joules", "server_lr"):
            word = "given"
        found.append(f"{name}: {word}")
        if name == "network" and "server" in str(value):
            found.append("network: server shared")
        if name == "network" and "energy" in str(value):
            found.append("network: battery" if "battery" in str(value) else "network: energy")
    return found

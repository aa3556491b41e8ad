"""The grid of places, the lengths of runs, and the rates that are tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from fedsim import Cell, Clients, Evaluation, Keep, Machine, RunConfig, Training

from .rescaled import DELAYS, FRACTIONS, name_of

MOMENTA = (0.5, 0.9, 0.95)
"""beta; with ``DELAYS`` (n) and ``FRACTIONS`` (p) 48 places of a task."""

ARMS = {"masked": "on", "off": "off", "rescaled": "off"}
"""An arm's ``--momentum-masking``; ``rescaled`` has an optimizer of its own."""

METHOD = "ef(topk({p}) | float32 | golomb)"
BASE = {"digits": 0.2, "mnist_2nn": 0.5}
"""The middle one of the rates that are tried, over 1 - beta: digits' own, and for ``mnist_2nn``
what six runs with the trials' seed had (n = 1 and 25, p = 0.01, beta = 0.9, not masked)."""

FACTORS = (0.316, 1.0, 3.16)
"""Rates that are tried, as multiples: half a decade apart."""

TRIAL_SEED = 100
"""The seed of the runs that choose a rate; no final run has it."""


@dataclass(frozen=True)
class Scale:
    """How long and how often: local iterations, seeds of the finals, and the grid."""

    iterations: int
    seeds: int
    delays: Sequence[int] = DELAYS
    fractions: Sequence[float] = FRACTIONS
    momenta: Sequence[float] = MOMENTA
    factors: Sequence[float] = FACTORS


SCALES = {
    "smoke": Scale(10, 2, (1, 5), (0.01, 0.5), (0.9,), (1.0,)),
    "short": Scale(300, 5),
    "paper": Scale(1200, 10),
}


@dataclass(frozen=True)
class Place:
    """One setting of n, p and beta."""

    n: int
    p: float
    beta: float

    @property
    def u(self) -> float:
        """The share of the momentum's horizon that masking forgets per iteration."""
        return self.p / (self.n * (1 - self.beta))


def places(scale: Scale) -> list[Place]:
    """All places of a task."""
    return [Place(*x) for x in product(scale.delays, scale.fractions, scale.momenta)]


def cell(
    task: str, scale: Scale, place: Place, arm: str, lr: float, seed: int, data: str | None
) -> Cell:
    """A run; its last model alone is scored."""
    own = f"experiments.masking.rescaled:{name_of(task, place.n, place.p)}"
    config = RunConfig(
        task=own if arm == "rescaled" else task,
        method=METHOD,
        temporal=place.n,
        gradient=place.p,
        iterations=scale.iterations,
        seed=seed,
        clients=Clients(4, partition="iid"),
        training=Training(batch_size=32, lr=lr, momentum=place.beta, momentum_masking=ARMS[arm]),
        evaluation=Evaluation(every=scale.iterations),
        keep=Keep(checkpoint_every=scale.iterations),
        machine=Machine(data=data),
    )
    name = f"n{place.n}-p{place.p:g}-beta{place.beta:g}-{arm}-lr{lr:g}-seed{seed}"
    return Cell(name, config)


def rates(task: str, scale: Scale, place: Place) -> list[float]:
    """The rates that a place tries."""
    return [float(f"{f * BASE[task] * (1 - place.beta):.3g}") for f in scale.factors]

"""The grid of places, the lengths of runs, and the rates that are tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from fedsim import Cell, Clients, Evaluation, Keep, Machine, RunConfig, Training

from .rescaled import DELAYS, FRACTIONS, name_of

MOMENTA = (0.5, 0.9, 0.95)
"""beta; with ``DELAYS`` (n) and ``FRACTIONS`` (p) 48 places of a task, 12 on the diagonal."""

ARMS = {"masked": "on", "off": "off", "rescaled": "off"}
"""An arm's ``--momentum-masking``; ``rescaled`` has an optimizer of its own."""

METHOD = "ef(topk({p}) | float32 | golomb)"


@dataclass(frozen=True)
class Task:
    """A task of the experiment.

    Attributes:
        task: as ``RunConfig`` takes it.
        rate: the middle one of the rates that are tried, over 1 - beta.
        chance: the accuracy with which a run counts whose weights stopped to be finite.
        batch_size: samples of a local iteration.
        diagonal: whether p falls as n rises, one value of p for each n; else each has all of them.
    """

    task: str
    rate: float
    chance: float
    batch_size: int = 32
    diagonal: bool = False


TASKS = {
    "digits": Task("digits", 0.2, 1 / 10),
    "mnist_2nn": Task("mnist_2nn", 0.5, 1 / 10),
    "chars": Task("experiments.masking.rescaled:CHARS", 0.1, 1 / 97, 8, diagonal=True),
}
"""By the names of ``--only``. The rate is digits' own. For the others it is the best of the rates
that runs with the trials' seed had (n = 1 and 25, p = 0.01, beta = 0.9, not masked)."""

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


def places(task: str, scale: Scale) -> list[Place]:
    """All places of a task.

    Example:
        >>> [(place.n, place.p) for place in places("chars", SCALES["smoke"])]
        [(1, 0.5), (5, 0.01)]
    """
    pairs = product(scale.delays, scale.fractions)
    if TASKS[task].diagonal:
        pairs = zip(scale.delays, reversed(scale.fractions), strict=True)
    return [Place(n, p, beta) for (n, p), beta in product(pairs, scale.momenta)]


def cell(
    task: str, scale: Scale, place: Place, arm: str, lr: float, seed: int, data: str | None
) -> Cell:
    """A run; its last model alone is scored."""
    own = f"experiments.masking.rescaled:{name_of(task, place.n, place.p)}"
    config = RunConfig(
        task=own if arm == "rescaled" else TASKS[task].task,
        method=METHOD,
        temporal=place.n,
        gradient=place.p,
        iterations=scale.iterations,
        seed=seed,
        clients=Clients(4, partition="iid"),
        training=Training(
            batch_size=TASKS[task].batch_size,
            lr=lr,
            momentum=place.beta,
            momentum_masking=ARMS[arm],
        ),
        evaluation=Evaluation(every=scale.iterations),
        keep=Keep(checkpoint_every=scale.iterations),
        machine=Machine(data=data),
    )
    name = f"n{place.n}-p{place.p:g}-beta{place.beta:g}-{arm}-lr{lr:g}-seed{seed}"
    return Cell(name, config)


def rates(task: str, scale: Scale, place: Place) -> list[float]:
    """The rates that a place tries."""
    return [float(f"{f * TASKS[task].rate * (1 - place.beta):.3g}") for f in scale.factors]

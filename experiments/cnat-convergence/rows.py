"""The methods, which figure compares which, and how long each task is trained."""

from dataclasses import dataclass

from experiments.common.frame import device
from fedsim import Cell, Evaluation, Machine, RunConfig, Training


@dataclass(frozen=True)
class Method:
    """A line of the figures; ``nat``: C_nat at the clients, on norms too, and at the server."""

    title: str
    method: str
    nat: bool = False


METHODS = {
    "none": Method("none", "raw"),
    "cnat": Method("C_nat", "cnat", nat=True),
    "sparse": Method("S_q", "bernoulli(0.1) | float32"),
    "sparse-cnat": Method("S_q, C_nat", "bernoulli(0.1) | cnat", nat=True),
    "dsta": Method("D_sta, 128 levels", "dither(128)"),
    "dsta-cnat": Method("D_sta, 128 levels, C_nat", "dither(128, norm_code=cnat)", nat=True),
    "dnat": Method("D_nat, 8 levels", "natural_dither(8)"),
    "dnat-cnat": Method(
        "D_nat, 8 levels, C_nat", "dither(8, '2', 'natural', norm_code=cnat)", nat=True
    ),
    "dsta-1": Method("D_sta, 1 level", "dither(1)"),
    "topk": Method("top-k 0.1 %, no residuals", "topk(0.001) | float32"),
}


@dataclass(frozen=True)
class Pair:
    """Two lines that a figure compares: what it says of the second."""

    figure: str
    plain: str
    other: str


PAIRS = (
    Pair("5, 13 to 15", "none", "cnat"),
    Pair("19, 20", "sparse", "sparse-cnat"),
    Pair("19, 20", "dsta", "dnat-cnat"),
    Pair("7", "dsta", "dnat"),
    Pair("7", "dsta-cnat", "dnat-cnat"),
    Pair("7", "dsta", "dsta-cnat"),
    Pair("7", "dnat", "dnat-cnat"),
    # Ours: all the noise that dithering can make, and a biased method, which has to fail.
    Pair("control", "none", "dsta-1"),
    Pair("control", "none", "topk"),
)
PANELS = {
    "Fig. 5, 13 to 15": ("none", "cnat"),
    "Fig. 19, 20": ("none", "cnat", "sparse", "sparse-cnat", "dsta", "dnat-cnat"),
    "Fig. 7": ("none", "dsta", "dsta-cnat", "dnat", "dnat-cnat"),
    "Controls": ("none", "dsta-1", "topk"),
}


@dataclass(frozen=True)
class Length:
    """How long a task is trained at a scale; ``every``: rounds between evaluations.

    ``test_samples``: None for all; ``methods``: those that are run, by name.
    """

    iterations: int
    batch_size: int
    clients: int
    seeds: int
    every: int
    test_samples: int | None = None
    lr: float | None = None
    methods: tuple[str, ...] = tuple(METHODS)


_FEW = ("none", "cnat", "dsta-1", "topk")
TASKS = {
    "digits": {"smoke": Length(2, 8, 2, 1, 2), "short": Length(200, 32, 2, 3, 20)},
    "fashion_lenet5": {"short": Length(200, 32, 2, 3, 40)},
    "cifar_resnet20": {
        "smoke": Length(2, 4, 2, 1, 2, 20, 0.02, _FEW),
        "short": Length(300, 32, 2, 3, 60, 2000, 0.02, _FEW),
    },
    "cifar_alexnet": {"short": Length(300, 32, 2, 3, 60, 2000, 0.02, ("none", "cnat", "topk"))},
    "cifar_densenet40": {"short": Length(300, 16, 2, 3, 100, 1000, 0.05, ("none", "cnat"))},
    "cifar_vgg11": {
        "short": Length(300, 16, 2, 3, 100, 1000, 0.01, ("none", "cnat", "dsta", "dnat")),
    },
}
"""A row per task; ``paper`` is the task's own length and rate, and all methods."""


def length(task: str, scale: str) -> Length | None:
    """None where the task has no such scale."""
    if scale != "paper":
        return TASKS[task].get(scale)
    plan = RunConfig(task=task, temporal=1).plan
    return Length(plan.iterations, plan.batch_size, plan.clients, 3, plan.iterations // 20)


def cells(task: str, scale: str, data: str | None) -> list[Cell]:
    """A run per method and seed; a task that has no such scale has none."""
    size = length(task, scale)
    if size is None:
        return []
    return [
        Cell(
            f"{name}-seed{seed}",
            RunConfig(
                task=task,
                method=METHODS[name].method,
                downlink="cnat" if METHODS[name].nat else "raw",
                temporal=1,
                seed=seed,
                iterations=size.iterations,
                clients=size.clients,
                training=Training(batch_size=size.batch_size, lr=size.lr),
                evaluation=Evaluation(every=size.every, test_samples=size.test_samples),
                machine=Machine(data=data, device=device(scale)),
            ),
        )
        for name in size.methods
        for seed in range(size.seeds)
    ]

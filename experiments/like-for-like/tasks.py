"""The tasks, their lengths and budgets, and how many trials tune a method."""

from dataclasses import dataclass

BUDGETS = (1.0, 0.1, 0.01, 0.001, 0.0001)
"""Upstream bits of a client, as parts of what a dense message per iteration takes."""

TITLES = {
    "fashion_lenet5": "LeNet5 on Fashion-MNIST", "char_lstm256": "character LSTM",
    "cifar_resnet20": "ResNet-20 on CIFAR-10",
}  # fmt: skip
"""What pages and figures call tasks whose names say less."""

_LSTM = "experiments.common.models:CHAR_LSTM256"


@dataclass(frozen=True)
class Size:
    """A task at a scale.

    Attributes:
        iterations: local iterations of a client, at every delay.
        delays: the values of n among which a method's is chosen.
        clients, batch_size, partition: as ``RunConfig`` has them; None: as the task has them.
        budgets: parts of the dense bits.
        trials: runs that tune n and the rate of each method at each budget.
        seeds: runs of what was chosen.
        evaluations: of every run.
        test_samples: held-out samples that are looked at; None: all.
        validation: the part of the training samples that trials are scored on.
        task: where a task stands that is not among fedsim's; empty: the one of the name.
    """

    iterations: int
    delays: tuple[int, ...]
    clients: int = 4
    batch_size: int | None = None
    partition: str = "dirichlet(0.5)"
    budgets: tuple[float, ...] = BUDGETS
    trials: int = 8
    seeds: int = 3
    evaluations: int = 12
    test_samples: int | None = None
    validation: float = 0.2
    task: str = ""


TASKS = {
    "digits": {
        "smoke": Size(8, (1, 4), 2, budgets=(1.0, 0.01), trials=3, seeds=1),
        "short": Size(120, (1, 3, 10, 30, 60)),
        "paper": Size(1000, (1, 5, 25, 100, 500), 10),
    },
    "fashion_lenet5": {
        "short": Size(100, (1, 4, 10, 25, 50), 4, 10, evaluations=10, test_samples=1000),
        "paper": Size(4000, (1, 10, 50, 200, 1000), 10, 64),
    },
    "char_lstm256": {
        "short": Size(
            100, (1, 4, 10, 25, 50), 4, 5, "iid", budgets=(1.0, 0.01, 0.001), evaluations=10,
            test_samples=200, task=_LSTM,
        ),
        "paper": Size(4000, (1, 10, 50, 200, 1000), 4, 20, "iid", task=_LSTM),
    },
    "cifar_resnet20": {"paper": Size(8000, (1, 10, 50, 200, 1000), 4, 32)},
}  # fmt: skip
"""By task and scale. At ``short`` a method has 8 trials and 3 runs at each budget."""

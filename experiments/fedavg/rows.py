"""The rows of Tables 1 and 2 of McMahan et al. 2017 with C = 0.1, and how each is run here."""

from dataclasses import dataclass

CLIENTS, COHORT = 100, 10
"""The paper's K, and its C = 0.1 of them."""

WHOLE = 600
"""Samples of a client: a batch of so many is the paper's B = infinity."""

UNIT = "experiments.fedavg.scaling:mnist_2nn_unit"
"""The 2NN's task with pixels between 0 and 1."""

TARGETS = {"mnist_2nn": 0.97, UNIT: 0.97, "mnist_cnn": 0.99, "digits": 0.5}
"""The test accuracy that rounds are counted to."""

TRIAL_SEED = 100
"""The seed of the runs that choose a rate; no other run has it."""

SMALL_BATCH, WHOLE_BATCH = (0.0464, 0.1, 0.215), (0.1, 0.215, 0.464)
UNIT_RATES = (0.0464, 0.1, 0.215, 0.464, 1.0)
"""Rates that are tried, a third of a decade apart, as the paper's grids are."""


@dataclass(frozen=True)
class Row:
    """A cell of the paper's tables, or one of them with compressed updates.

    Attributes:
        name: the row's name for ``--only``.
        task: the model.
        epochs: E, local epochs of a round.
        batch: B, samples of a local batch; ``WHOLE``: infinity.
        partition: who holds which samples.
        paper: rounds to the target in the paper; None: the paper has no such row.
        lr: the rate of the runs.
        rounds: the most that a run has.
        trial: rounds of each run that tries a rate; 0: none is tried, and ``lr`` is of another row.
        rates: those that are tried.
        seeds: seeds 0, 1, ... of the runs.
        method: how clients send their updates.
        table: which of the paper's tables has it.
    """

    name: str
    task: str
    epochs: int
    batch: int
    partition: str
    paper: int | None
    lr: float
    rounds: int
    trial: int
    rates: tuple[float, ...] = SMALL_BATCH
    seeds: int = 5
    method: str = "raw"
    table: str = "1"


IID, SHARDS = "iid", "shards(2)"
ROWS = {
    row.name: row
    for row in (
        Row("2nn-iid-b10", "mnist_2nn", 1, 10, IID, 87, 0.1, 60, 20),
        Row("2nn-iid-b10-qsgd", "mnist_2nn", 1, 10, IID, None, 0.1, 60, 0, method="qsgd(127)"),
        Row("2nn-iid-b10-unit", UNIT, 1, 10, IID, None, 0.215, 200, 30, UNIT_RATES),
        Row("2nn-shards-b10", "mnist_2nn", 1, 10, SHARDS, 664, 0.1, 900, 0),
        Row("2nn-iid-whole", "mnist_2nn", 1, WHOLE, IID, 1474, 0.215, 2000, 100, WHOLE_BATCH, 3),
        Row("2nn-shards-whole", "mnist_2nn", 1, WHOLE, SHARDS, 1796, 0.215, 2500, 0, seeds=3),
        Row("cnn-iid-e1-b10", "mnist_cnn", 1, 10, IID, 34, 0.1, 60, 6, table="2"),
        Row(
            "cnn-iid-e1-b10-qsgd",
            "mnist_cnn",
            1,
            10,
            IID,
            None,
            0.1,
            60,
            0,
            method="qsgd(127)",
            table="2",
        ),
        Row("cnn-iid-e5-b10", "mnist_cnn", 5, 10, IID, 20, 0.1, 30, 0, seeds=3, table="2"),
        Row("cnn-iid-e5-b50", "mnist_cnn", 5, 50, IID, 29, 0.1, 50, 0, seeds=3, table="2"),
        Row("cnn-iid-e1-b50", "mnist_cnn", 1, 50, IID, 65, 0.1, 120, 0, seeds=3, table="2"),
        Row(
            "cnn-iid-e1-whole", "mnist_cnn", 1, WHOLE, IID, 626, 0.215, 1000, 0, seeds=3, table="2"
        ),
        Row("cnn-shards-e5-b10", "mnist_cnn", 5, 10, SHARDS, 229, 0.1, 350, 0, seeds=3, table="2"),
        Row("cnn-shards-e1-b10", "mnist_cnn", 1, 10, SHARDS, 350, 0.1, 500, 0, seeds=3, table="2"),
    )
}
"""By name, in the order in which they are run."""

"""The runs, which figure shows which, and the settings that make them the paper's."""

from dataclasses import dataclass

from experiments.common.dropping import drop, quantized, sends_gradients
from experiments.common.frame import device
from fedsim import Cell, Evaluation, Machine, RunConfig, Training
from fedsim.tasks import Task, get_task

SERVER_LR = 0.005
EVALUATIONS = 10


@dataclass(frozen=True)
class Printed:
    """What the paper prints of a run: speeds a second (Table 1), accuracy (Figure 6), ratio."""

    images: int | None = None
    words: int | None = None
    accuracy_percent: float | None = None
    ratio: float | None = None


@dataclass(frozen=True)
class Row:
    """A run: how clients and server compress, and the figures that show it.

    ``layer`` says whether the network has layer normalization.
    """

    name: str
    title: str
    layer: bool
    up: str
    down: str
    figures: tuple[str, ...]
    paper: Printed = Printed()


def _both(name: str, title: str, method: str, *figures: str, paper: Printed = Printed()) -> Row:
    """A network with layer normalization; the same method both ways, as the paper has it."""
    return Row(name, title, True, method, method, figures, paper)


COLUMN = "ef(per_tensor(topk(0.01) | magnitude(column) | golomb))"
ROWS = {
    row.name: row
    for row in (
        _both(
            "dense",
            "no dropping",
            "raw",
            "fig2",
            "fig4",
            "fig6",
            "table1",
            paper=Printed(2489, 13100, 99.28, 1),
        ),
        _both("drop-90", "drop 90 %", drop(0.1), "fig2", "table1", paper=Printed(3174, 14443)),
        _both(
            "drop-99",
            "drop 99 %",
            drop(0.01),
            "fig2",
            "fig4",
            "fig6",
            "fig8",
            "table1",
            paper=Printed(3726, 14740, 99.42, 50),
        ),
        _both(
            "drop-99.9", "drop 99.9 %", drop(0.001), "fig2", "table1", paper=Printed(3921, 14786)
        ),
        Row("local-99", "drop 99 %, local", True, drop(0.01, "tensor"), drop(0.01), ("fig4",)),
        Row("plain-dense", "no dropping", False, "raw", "raw", ("fig4",)),
        Row("plain-global-99", "drop 99 %", False, drop(0.01), drop(0.01), ("fig4",)),
        Row(
            "plain-local-99", "drop 99 %, local", False, drop(0.01, "tensor"), drop(0.01), ("fig4",)
        ),
        _both("min-1", "1 bit, min", quantized("min", 1), "fig8"),
        _both("avg-1", "1 bit, avg", quantized("avg", 1), "fig8"),
        _both("min-2", "2 bits, min", quantized("min", 2), "fig8"),
        _both("avg-2", "2 bits, avg", quantized("avg", 2), "fig8"),
        _both("column-1", "1 bit, avg of columns", COLUMN, "fig8"),
    )
}
FIGURES = ("fig2", "fig4", "fig6", "fig8", "table1")
SMOKE = (
    "dense",
    "drop-99",
    "local-99",
    "plain-dense",
    "plain-local-99",
    "min-1",
    "avg-2",
    "column-1",
)
"""The rows of ``smoke``: one of each kind."""


@dataclass(frozen=True)
class Scale:
    """``layer`` and ``plain`` are tasks with and without layer norm; a batch is a client's.

    ``seeds``: how many seeds the rows of Figure 4 have; all others have seed 0 alone.
    """

    layer: str
    plain: str
    rounds: int
    batch_size: int
    clients: int | None = None  # as the tasks have it
    seeds: int = 1


SCALES = {
    "smoke": Scale("digits", "digits", 2, 8, clients=2),
    "short": Scale("mnist_mlp512_ln", "mnist_mlp512", 500, 40, seeds=3),
    "paper": Scale("mnist_mlp4096_ln", "mnist_mlp4096", 7500, 40, seeds=3),
}


def tasks(scale: Scale) -> dict[bool, Task]:
    """The tasks with (True) and without layer normalization, whose clients send gradients."""
    names = {True: scale.layer, False: scale.plain}
    learnt = {name: sends_gradients(get_task(name)) for name in set(names.values())}
    return {layer: learnt[name] for layer, name in names.items()}


def rows_of(only: list[str] | None) -> list[Row]:
    """The rows that the figures ``only`` (default: all) show, none twice."""
    wanted = set(only or FIGURES)
    return [row for row in ROWS.values() if wanted & set(row.figures)]


def cells(rows: list[Row], scale: str, data: str | None) -> list[Cell]:
    """A run per row and seed, called ``ROW-seedN``: one gradient per client and round."""
    chosen = SCALES[scale]
    learnt = tasks(chosen)
    return [
        Cell(
            f"{row.name}-seed{seed}",
            RunConfig(
                task=learnt[row.layer],
                method=row.up,
                downlink=row.down,
                temporal=1,
                seed=seed,
                strategy=f"fedadagrad(server_lr={SERVER_LR})",
                iterations=chosen.rounds,
                clients=chosen.clients,
                training=Training(batch_size=chosen.batch_size, momentum_masking="off"),
                evaluation=Evaluation(every=max(1, chosen.rounds // EVALUATIONS)),
                machine=Machine(data=data, device=device(scale)),
            ),
        )
        for row in rows
        for seed in range(chosen.seeds if "fig4" in row.figures else 1)
    ]

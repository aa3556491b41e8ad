"""The runs: a language model, as the paper's translation system has its three figures."""

from dataclasses import dataclass

from experiments.common.dropping import drop, quantized
from experiments.common.frame import device
from fedsim import Cell, Evaluation, Machine, RunConfig, Training

TASK = {True: "experiments.common.dropping:WORDS_NORM", False: "experiments.common.dropping:WORDS"}
"""With layer normalization and without."""
CLIENTS, EVALUATIONS = 4, 8


@dataclass(frozen=True)
class Row:
    """A run.

    Attributes:
        title: in tables and figures.
        norm: whether the model has layer normalization.
        up, down: the methods of clients and of the server.
        figures: of the paper, that it belongs to.
        rate: of the server's AdaGrad; None: the best of those tried without dropping.
    """

    title: str
    norm: bool
    up: str
    down: str
    figures: tuple[int, ...]
    rate: float | None = None


RATES = (0.01, 0.03, 0.1, 0.3)
RATE = {True: 0.03, False: 0.03}
"""The server's rate with layer normalization and without: of ``RATES`` the best of ``dense``."""

_P99 = drop(0.01)
ROWS = {
    "dense": Row("no dropping", True, "raw", "raw", (3, 5, 8)),
    "drop-90": Row("drop 90 %", True, drop(0.1), drop(0.1), (3,)),
    "drop-99": Row("drop 99 %", True, _P99, _P99, (3, 5, 8)),
    "drop-99.9": Row("drop 99.9 %", True, drop(0.001), drop(0.001), (3,)),
    "local-99": Row("drop 99 %, local", True, drop(0.01, "tensor"), _P99, (5,)),
    "plain-dense": Row("no dropping", False, "raw", "raw", (5,)),
    "plain-99": Row("drop 99 %", False, _P99, _P99, (5,)),
    "plain-local-99": Row("drop 99 %, local", False, drop(0.01, "tensor"), _P99, (5,)),
    **{
        f"{value}-{bits}": Row(
            f"{bits} bit{'s' * (bits > 1)}, {value}",
            True,
            quantized(value, bits),
            quantized(value, bits),
            (8,),
        )
        for bits in (1, 2)
        for value in ("min", "avg")
    },
    **{
        f"{'dense' if norm else 'plain-dense'}-rate{rate:g}": Row(
            f"no dropping, rate {rate:g}", norm, "raw", "raw", (), rate
        )
        for norm in (True, False)
        for rate in RATES
    },
}
FIGURES = {f"fig{number}": number for number in (3, 5, 8)}


@dataclass(frozen=True)
class Scale:
    """What a scale runs: rounds, seeds, and held-out rows of 350 words."""

    rounds: int
    seeds: int
    scored: int


SCALES = {"smoke": Scale(2, 1, 2), "short": Scale(400, 3, 100), "paper": Scale(40_000, 3, 700)}


def rows_of(only: list[str]) -> list[str]:
    """The rows of figures; of ``rates``, those by which the rates were chosen; none: of figures."""
    wanted = {FIGURES[name] for name in only if name in FIGURES} or set(FIGURES.values())
    if only == ["rates"]:
        return [name for name, row in ROWS.items() if row.rate]
    return [name for name, row in ROWS.items() if wanted & set(row.figures)]


def cells(names: list[str], scale: str, data: str | None) -> list[Cell]:
    """A run per row and seed, called ``ROW-seedN``; rates are tried on a seed of their own."""
    chosen = SCALES[scale]
    return [
        Cell(
            f"{name}-seed{seed}",
            RunConfig(
                task=TASK[row.norm],
                method=row.up,
                downlink=row.down,
                temporal=1,
                seed=seed,
                strategy=f"fedadagrad(server_lr={row.rate or RATE[row.norm]})",
                iterations=chosen.rounds,
                clients=CLIENTS,
                training=Training(momentum_masking="off"),
                evaluation=Evaluation(
                    every=max(1, chosen.rounds // EVALUATIONS), test_samples=chosen.scored
                ),
                machine=Machine(data=data, device=device(scale)),
            ),
        )
        for name, row in ((name, ROWS[name]) for name in names)
        for seed in ([10] if row.rate else range(chosen.seeds))
    ]

"""The runs: four workers that each hold a quarter of the model, or that wait for each other."""

from dataclasses import dataclass

from fedsim import Cell, Evaluation, Machine, RunConfig, Training

TARGET = 0.94
"""The accuracy to which times are told: the lowest that the paper's figures show."""

NONE = float("nan")
LINK = "up=580Mbit, down=580Mbit, latency=0.1ms, compute=lognormal(20ms, 0.1)"
"""On it a dense update sends for 41 % of its time, as the paper's do (section 5.3)."""


@dataclass(frozen=True)
class Row:
    """A run: the method both ways, the paper's images per second (Table 1; NaN: none)."""

    title: str
    method: str
    images: float
    strategy: str = "sharded"


def _drop(p: float) -> str:
    return f"gradient_dropping({p:g}, model)"


ROWS = {
    "dense": Row("no dropping", "raw", 2489),
    "drop-90": Row("drop 90 %", _drop(0.1), 3174),
    "drop-99": Row("drop 99 %", _drop(0.01), 3726),
    "drop-99.9": Row("drop 99.9 %", _drop(0.001), 3921),
    "sync": Row("synchronous", "raw", NONE, "gradients"),
    "sync-drop-99": Row("synchronous, drop 99 %", _drop(0.01), NONE, "gradients"),
}
SEEDS = 3
SMOKE = ("dense", "drop-99", "sync")
SCALES = {
    "smoke": ("digits", 2, 8, 2),
    "short": ("mnist_mlp128_ln", 250, 40, 4),
    "paper": ("mnist_mlp4096_ln", 7500, 40, 4),
}
"""Task, batches per worker, batch size and workers of each scale."""


def cells(names: list[str], scale: str, data: str | None) -> list[Cell]:
    """A run per row and seed, called ``ROW-seedN``."""
    task, iterations, batch_size, workers = SCALES[scale]
    made = []
    for name in names or (SMOKE if scale == "smoke" else ROWS):
        row = ROWS[name]
        for seed in range(1 if scale == "smoke" else SEEDS):
            config = RunConfig(
                task=task,
                method=row.method,
                downlink=row.method,
                strategy=row.strategy,
                temporal=1,
                iterations=iterations,
                training=Training(batch_size=batch_size),
                clients=workers,
                seed=seed,
                machine=Machine(data=data),
                network=LINK,
                evaluation=Evaluation(max(1, iterations // 25), None if scale == "paper" else 5000),
            )
            made.append(Cell(f"{name}-seed{seed}", config))
    return made

"""The runs of a square on the plane of temporal and gradient sparsity, and their errors.

Delays are powers of one ratio and gradient sparsities its inverse powers, so that cells of equal
total sparsity lie on diagonals. sbc-matrix and sbc-curves draw the same runs.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from torch.optim import SGD

from experiments.common.tables import table
from fedsim import Cell, Evaluation, Machine, Results, RunConfig, Training
from fedsim.tasks import Task, get_task

METHODS = {"gradient_dropping": "gradient dropping", "sbc": "SBC"}
"""Names, and what figures call them."""

DENSE = "dense"
UNMASKED = "unmasked"
"""Ends the name of a cell without momentum masking."""
STEPPED = "_stepped"
"""Ends the name of a row whose rate falls to a tenth: the second phase of Fig. 4."""


@dataclass(frozen=True)
class Square:
    """A task and its cells: n in 1, ratio, ratio**2, ...; p in 1, 1 / ratio, ...

    ``stages`` are the local iterations at which errors are compared. ``drawn`` are the cells of
    sbc-curves, as (method, power of n, power of p); they are evaluated every ``fine`` iterations,
    the others every ``coarse``. ``falls`` is the iteration at which a stepped row lowers its rate.
    ``bare`` are cells of n = 1, as (method, power of p), trained also without momentum masking.
    ``scored`` are the held-out samples that errors are taken on; None: all.
    """

    task: str
    ratio: int
    side: int
    iterations: int
    batch_size: int
    clients: int
    stages: tuple[int, ...]
    coarse: int
    fine: int
    drawn: tuple[tuple[str, int, int], ...]
    falls: int = 0
    bare: tuple[tuple[str, int], ...] = ()
    scored: int | None = None

    @property
    def learnt(self) -> Task:
        """The task; with a step, on the settings that Table III has for ResNet32 (Fig. 4's)."""
        task = get_task(self.task.removesuffix(STEPPED))
        if not self.falls:
            return task
        steps = ((self.falls, 0.1),)
        momentum = partial(SGD, lr=0.01, momentum=0.9)
        return replace(task, name=self.task, optimizer=momentum, lr_steps=steps)

    @property
    def temporals(self) -> list[int]:
        """The delays n, upwards."""
        return [self.ratio**power for power in range(self.side)]

    @property
    def gradients(self) -> list[float]:
        """The gradient sparsities p, downwards."""
        return [self.ratio**-power for power in range(self.side)]

    def evaluate_every(self, name: str, temporal: int) -> int:
        """Rounds between the evaluations of a cell."""
        drawn = {self.name(method, self.ratio**n, self.ratio**-p) for method, n, p in self.drawn}
        return max(1, (self.fine if name in drawn else self.coarse) // temporal)

    def name(self, method: str, temporal: int, gradient: float) -> str:
        """A cell's folder; p = 1 is float32 whatever the method, and trained once."""
        return f"{DENSE if gradient == 1 else method}-n{temporal}-p{gradient:.3g}"

    def cells(self, data: str | None) -> list[Cell]:
        """Every cell of both methods, the dense ones first and once."""
        cells = {}
        for method, temporal, gradient in [
            (method, n, p) for method in METHODS for p in self.gradients for n in self.temporals
        ]:
            name = self.name(method, temporal, gradient)
            cells[name] = Cell(name, self._config(method, temporal, gradient, data))
        return list(cells.values())

    def unmasked(self, data: str | None) -> list[Cell]:
        """The cells of ``bare``: gradient sparsity alone, whose momentum is left as it is."""
        cells = []
        for method, power in self.bare:
            gradient = self.ratio**-power
            config = self._config(method, 1, gradient, data)
            name = f"{self.name(method, 1, gradient)}-{UNMASKED}"
            cells.append(Cell(name, config.but(momentum_masking="off")))
        return cells

    def _config(self, method: str, temporal: int, gradient: float, data: str | None) -> RunConfig:
        name, dense = self.name(method, temporal, gradient), gradient == 1
        masking = "auto" if dense else "on"  # the paper's, of both methods
        return RunConfig(
            task=self.learnt if self.falls else self.task,
            iterations=self.iterations,
            method="raw" if dense else method,
            temporal=temporal,
            gradient=None if dense else gradient,
            training=Training(batch_size=self.batch_size, momentum_masking=masking),
            clients=self.clients,
            machine=Machine(data=data),
            evaluation=Evaluation(
                every=self.evaluate_every(name, temporal), test_samples=self.scored
            ),
        )


def _bare(side: int) -> tuple[tuple[str, int], ...]:
    """Gradient sparsity alone, by both methods, at every p of a square."""
    return tuple((method, power) for method in METHODS for power in range(1, side))


def _drawn(side: int, fedavg: int) -> tuple[tuple[str, int, int], ...]:
    """Table II's methods in a square: dense, dropping, federated averaging, SBC (1) to (3)."""
    last = side - 1
    dense = ((DENSE, 0, 0), ("gradient_dropping", 0, last), (DENSE, fedavg, 0))
    return (*dense, *(("sbc", power, last) for power in range(min(3, side))))


SHORT = {
    "digits": Square(
        "digits", 3, 6, 243, 32, 2, (27, 81, 162, 243), 27, 9, _drawn(6, 4), bare=_bare(6)
    ),
    "fashion_lenet5": Square(
        "fashion_lenet5", 5, 4, 500, 32, 2, (125, 250, 500), 125, 25, _drawn(4, 2), bare=_bare(4)
    ),
    "fashion_lenet5_stepped": Square(
        "fashion_lenet5_stepped", 5, 4, 1500, 32, 2, (500, 1000, 1125, 1500), 125, 25,
        _drawn(4, 2), falls=1000, bare=_bare(4),
    ),
    "cifar_resnet20": Square(
        "cifar_resnet20", 5, 4, 375, 32, 2, (125, 250, 375), 125, 25, _drawn(4, 2), bare=_bare(4),
        scored=1000,
    ),
}  # fmt: skip
"""A row per task; another task is one row more."""

SMOKE = {
    "digits": Square("digits", 3, 2, 6, 8, 2, (3, 6), 3, 3, _drawn(2, 1), bare=_bare(2)),
}


def _paper(square: Square) -> Square:
    """The task's own length (to a multiple of the longest delay), batch and clients."""
    task, longest = square.learnt, square.ratio ** (square.side - 1)
    times = max(1, task.iterations // longest)
    stages = sorted({longest * max(1, times * part // 4) for part in (1, 2, 3, 4)})
    return replace(
        square,
        iterations=longest * times,
        batch_size=task.batch_size,
        clients=task.clients,
        stages=tuple(stages),
        coarse=longest,
        falls=stages[1] if square.falls else 0,
        scored=None,
    )


SCALES = {
    "smoke": SMOKE,
    "short": SHORT,
    "paper": {name: _paper(square) for name, square in SHORT.items()},
}


def errors(square: Square, results: Results) -> pd.DataFrame:
    """A row per method, cell and stage: ``error`` is 1 - metric where higher is better.

    A cell whose first round ends after the stage has no row there: nothing was sent yet.
    """
    scored, rows = _scored(results), []
    for method, stage, (i, n), (j, p) in [
        (method, stage, row, column)
        for method in METHODS
        for stage in square.stages
        for row in enumerate(square.temporals)
        for column in enumerate(square.gradients)
    ]:
        if n > stage:
            continue
        name = square.name(method, n, p)
        rows.append(
            {
                "task": square.task,
                "method": method,
                "stage": stage,
                "temporal": n,
                "gradient": p,
                "diagonal": i + j,
                "total_sparsity": p / n,
                "error": float(scored[name, stage]),
                "ratio_content": results.runs.loc[name, "ratio_content"],
            }
        )
    return pd.DataFrame(rows)


def bare_errors(square: Square, results: Results) -> pd.DataFrame:
    """A row per cell of ``bare`` and stage: its error with momentum masking and without.

    ``temporal`` is the error of delay alone at the same total sparsity (NaN before its first
    round), ``dense`` that of neither.
    """
    scored, rows = _scored(results), []
    for method, power in square.bare:
        n, p = square.ratio**power, square.ratio**-power
        masked = square.name(method, 1, p)
        for stage in square.stages:
            rows.append(
                {
                    "task": square.task,
                    "method": method,
                    "stage": stage,
                    "gradient": p,
                    "masked": float(scored[masked, stage]),
                    "unmasked": float(scored[f"{masked}-{UNMASKED}", stage]),
                    "temporal": float(scored.get((square.name(DENSE, n, 1), stage), np.nan)),
                    "dense": float(scored[square.name(DENSE, 1, 1), stage]),
                }
            )
    return pd.DataFrame(rows)


def _scored(results: Results) -> pd.Series:
    """Errors by run and iteration."""
    scored = results.rounds.dropna(subset="metric").set_index(["run", "iteration"])["metric"]
    return 1 - scored if bool(results.runs["higher_is_better"].iloc[0]) else scored


def stage_table(title: str, frame: pd.DataFrame, columns: dict[str, str]) -> str:
    """A title and a row per method and iteration: names of columns, and how each is written."""
    lines = [
        [METHODS[row["method"]], f"{row['stage']}"]
        + [text.format(**row).replace("nan", "") for text in columns.values()]
        for row in frame.to_dict("records")
    ]
    return f"{title}\n\n{table(('method', 'iteration', *columns), lines)}"

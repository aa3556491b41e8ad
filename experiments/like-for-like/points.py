"""From a method, a budget, a delay and a rate to the run that uses that budget."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from compressors import add_rows
from experiments.common.budgets import KEPT, Budgets, Use
from experiments.common.frame import Asked
from fedsim import Cell, RunConfig
from fedsim.search import OWN, Sizes

from .rows import DENSE, ROWS, Row
from .tasks import TASKS, Size
from .walk import Trial

_STEP = 0.003  # of a sign, where the search begins


class Points:
    """The runs of one task.

    Args:
        asked: the task, the scale, the folder with data.
        rows: the methods by name.
    """

    def __init__(self, asked: Asked, rows: dict[str, Row]) -> None:
        add_rows(str(Path(__file__).with_name("own")))  # adacomp, atomo, inceptionn, sz
        self.size: Size = TASKS[asked.task][asked.scale]
        self.rows = rows
        self._shared: dict[str, Any] = {
            "task": self.size.task or asked.task, "clients": self.size.clients,
            "batch_size": self.size.batch_size, "partition": self.size.partition,
            "data": asked.data, "test_samples": self.size.test_samples,
        }  # fmt: skip
        self._sizes = Sizes(RunConfig.of(method="raw", temporal=1, iterations=1, **self._shared))
        self._budgets = Budgets(self._sizes)
        self.dense = self._sizes.bits(ROWS[DENSE].text, None, OWN) * self.size.iterations
        self.use = lru_cache(maxsize=None)(self._use)

    def delays(self, row: str, budget: float) -> list[int]:
        """The delays at which at least one message of the method fits the budget."""
        every = self.rows[row].delays or self.size.delays
        return [n for n in every if self.use(row, budget, n) is not None]

    def _use(self, row: str, budget: float, delay: int) -> Use | None:
        """How a method uses a budget with a delay; None where not one message fits."""
        text = self.rows[row].text.replace("{step}", str(_STEP))
        return self._budgets.use(text, budget * self.dense, self.size.iterations // delay)

    def run(self, row: str, budget: float, trial: Trial, seed: int | None = None) -> Cell:
        """A run, and the name of its folder; budgets that the method uses alike share a run.

        Args:
            row: the method.
            budget: the part of the dense bits.
            trial: the delay, and the factor on the rate.
            seed: of a run of what was chosen, on all training samples; None: a trial, whose seed is
                0 and which is scored on the validation part.
        """
        (delay, factor), size, method = trial, self.size, self.rows[row]
        use = self.use(row, budget, delay)
        assert use is not None
        budget = max(b for b in size.budgets if self.use(row, b, delay) == use)  # one run for all
        signs = "{step}" in method.text
        text = method.text.replace("{step}", f"{_STEP * factor:.4g}")
        config = RunConfig.of(
            method=text, gradient=use.fraction, temporal=delay, iterations=use.rounds * delay,
            lr=self.rate(row, 1.0 if signs else factor), stop_at_bits=KEPT * budget * self.dense,
            evaluate_every=max(1, use.rounds // size.evaluations), seed=seed or 0, label=row,
            validation=size.validation if seed is None else None, **self._shared, **method.more,
        )  # fmt: skip
        part = "trial" if seed is None else f"seed{seed}"
        return Cell(f"{row}-b{budget:g}-n{delay}-x{factor:g}-{part}", config)

    def rate(self, row: str, factor: float) -> float:
        """The clients' rate; of a method that is tuned by its step, that step."""
        return float(f"{self._sizes.rate * factor:.4g}")

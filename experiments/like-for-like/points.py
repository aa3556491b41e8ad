"""From a method, a budget, a delay and a rate to the run that uses that budget."""

import contextlib
from dataclasses import dataclass
from functools import lru_cache
from math import floor, log10
from pathlib import Path
from typing import Any

from compressors import add_rows
from experiments.common.frame import Asked
from fedsim import Cell, RunConfig
from fedsim.search import OWN, Sizes

from .rows import DENSE, ROWS, Row
from .tasks import TASKS, Size
from .walk import Trial

KEPT = 1.03
"""A run may exceed its budget by this: its length follows from the size of one message."""

_STEP = 0.003  # of a sign, where the search begins
_HALVINGS = 24


@dataclass(frozen=True)
class Use:
    """How a method uses a budget with a delay: its fraction (None: it takes none), and rounds."""

    fraction: float | None
    rounds: int


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
        self.dense = self._sizes.bits(ROWS[DENSE].text, None, OWN) * self.size.iterations
        self.use = lru_cache(maxsize=None)(self._use)

    def delays(self, row: str, budget: float) -> list[int]:
        """The delays at which at least one message of the method fits the budget."""
        every = self.rows[row].delays or self.size.delays
        return [n for n in every if self.use(row, budget, n) is not None]

    def _use(self, row: str, budget: float, delay: int) -> Use | None:
        """The largest fraction whose rounds fit; with the smallest, as many rounds as fit."""
        bits, rounds = budget * self.dense, self.size.iterations // delay
        text = self.rows[row].text.replace("{step}", str(_STEP))
        if "{p}" not in text:
            rounds = min(rounds, floor(bits / self._sizes.bits(text, None, OWN)))
            return Use(None, rounds) if rounds else None
        # The largest that is tried: a half, or what the method takes. At p = 1 every method sends
        # float32 (``fedsim.settings.methods``).
        for most in (0.5, 0.25, 0.1):
            with contextlib.suppress(ValueError):
                self._sizes.bits(text, most, OWN)
                break
        else:
            raise AssertionError(text)
        low, high = log10(1 / self._sizes.entries), log10(most)
        if self._bits(text, low) * rounds > bits:
            rounds = floor(bits / self._bits(text, low))
            return Use(_two(10**low), rounds) if rounds else None
        if self._bits(text, high) * rounds <= bits:
            return Use(_two(10**high), rounds)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            fits = self._bits(text, middle) * rounds <= bits
            low, high = (middle, high) if fits else (low, middle)
        return Use(_two(10**low), rounds)

    def _bits(self, text: str, power: float) -> int:
        return self._sizes.bits(text, _two(10**power), OWN)

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


def _two(value: float) -> float:
    """Two significant digits, downwards."""
    scale = 10.0 ** (floor(log10(value)) - 1)
    return float(f"{floor(value / scale * (1 + 1e-9)) * scale:.2g}")

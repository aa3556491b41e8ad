"""A run's scalars for TensorBoard, live while it trains: ``tensorboard/`` in the run's folder."""

import math
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.federation import ledger
from fedsim.ground.errors import UsageError

FOLDER = "tensorboard"


def check(wanted: bool) -> None:
    """Raises ``UsageError`` where scalars are wanted and the package is missing."""
    if wanted and find_spec("tensorboard") is None:
        raise UsageError(
            "--tensorboard needs the package tensorboard, which is not installed: "
            "pip install 'fedsim-lab[tensorboard]'"
        )


class Scalars:
    """Writes the row of every round; steps are local iterations.

    What the folder held before is replaced by ``before``, so that a run that goes on from its
    checkpoint has every step once.

    Args:
        folder: the run's folder.
        trained: how many entries of the model are trained.
        metric: what the metric is called.
        before: the rows of the rounds that were done before.
    """

    def __init__(
        self, folder: Path, trained: int, metric: str, before: Iterable[dict[str, Any]] = ()
    ) -> None:
        from torch.utils.tensorboard import SummaryWriter

        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        self.trained, self.metric = trained, metric
        self._sums = {"up_wire": 0.0, "up_payload": 0.0, "down_wire": 0.0}
        self._writer = SummaryWriter(str(folder / FOLDER))
        for row in before:
            self._write(row)
        self._writer.flush()

    def __call__(self, row: dict[str, Any]) -> None:
        """Writes one round; a round with an evaluation is on disk when this returns."""
        self._write(row)
        if not math.isnan(row["metric"]):
            self._writer.flush()

    def close(self) -> None:
        """Brings the last scalars to disk."""
        self._writer.close()

    def _write(self, row: dict[str, Any]) -> None:
        step, cohort = int(row["iteration"]), row["clients"]
        self._sums["up_wire"] += ledger.of_each(row["up_wire_bits"], cohort)
        self._sums["up_payload"] += ledger.of_each(row["up_content_bits"], cohort)
        self._sums["down_wire"] += ledger.of_each(row["down_wire_bits"], cohort + row["failures"])
        values = {self.metric: row["metric"], "loss/held_out": row["loss"]}
        values["loss/train"] = row["train_loss"]
        values |= {f"bits/{name}": bits for name, bits in self._sums.items()}
        for name in ("wire", "payload"):
            bits = self._sums[f"up_{name}"]
            values[f"ratio/{name}"] = ledger.ratio(self.trained, step, bits)
        for name, value in values.items():
            if math.isfinite(value):  # rounds without an evaluation
                self._writer.add_scalar(name, value, step)


def export(folder: Path, summary: dict[str, Any]) -> None:
    """Writes the scalars of a finished run from its ``rounds.parquet``, if they are not there."""
    if not (folder / FOLDER).exists():
        rows = pd.read_parquet(folder / "rounds.parquet").to_dict("records")
        trained = summary.get("trained_parameters") or summary["parameters"]  # of an older run
        Scalars(folder, trained, summary["metric_name"], rows).close()

"""A run's scalars for TensorBoard, live while it trains: ``tensorboard/`` in the run's folder."""

import math
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from fedsim.federation import ledger
from fedsim.ground.errors import writing
from fedsim.ground.records import SCORE
from fedsim.runs.callbacks import RoundRow
from fedsim.runs.totals import compression_ratio
from fedsim.runs.trackers.base import Tracker, scored

FOLDER = "tensorboard"


class TensorBoard(Tracker):
    """Writes the row of every round for TensorBoard; steps are local iterations.

    The folder's former contents are replaced, so that a run that goes on from its checkpoint has
    every step once. ``--track tensorboard`` makes one for the run's own folder.

    Args:
        folder: its folder ``tensorboard`` is written.

    Example:
        run(config, callbacks=[TensorBoard("logs")])
    """

    package = "tensorboard"

    @property
    def in_tracker(self) -> bool:
        return (self.folder / FOLDER).exists()

    def begin(self, description: Mapping[str, Any], rows: Sequence[RoundRow]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        with writing(self.folder):
            shutil.rmtree(self.folder / FOLDER, ignore_errors=True)
            self._writer = SummaryWriter(str(self.folder / FOLDER))
        self._description = description
        self._sums = {"up_wire": 0.0, "up_payload": 0.0, "down_wire": 0.0}
        self._used = 0.0  # iterations
        for row in rows:
            self.round(row)
        self._writer.flush()

    def write(self, row: RoundRow) -> None:
        cohort = row["clients"]
        self._sums["up_wire"] += ledger.of_each(row["up_wire_bits"], cohort)
        self._sums["up_payload"] += ledger.of_each(row["up_content_bits"], cohort)
        self._sums["down_wire"] += ledger.of_each(row["down_wire_bits"], cohort + row["failures"])
        self._used += ledger.used_iterations(row)
        values = {"loss/train": row["train_loss"]}
        values |= {f"bits/{name}": bits for name, bits in self._sums.items()}
        for name in ("wire", "payload"):
            bits, trained = self._sums[f"up_{name}"], self._description["trained_parameters"]
            values[f"ratio/{name}"] = compression_ratio(trained, self._used, bits)
        self._add(values, int(row["iteration"]))
        if scored(row):
            self.write_scores(row)

    def write_scores(self, row: RoundRow) -> None:
        values = {self._description["metric_name"]: row["metric"], "loss/held_out": row["loss"]}
        more = [name for name in row if name.startswith(SCORE)]
        values |= {f"score/{name.removeprefix(SCORE)}": row[name] for name in more}
        self._add(values, int(row["iteration"]))
        with writing(self.folder):  # it is on disk when other callbacks see the round
            self._writer.flush()

    def _add(self, values: Mapping[str, float], step: int) -> None:
        with writing(self.folder):
            for name, value in values.items():
                if math.isfinite(value):
                    self._writer.add_scalar(name, value, step)

    def end(self, summary: Mapping[str, Any]) -> None:
        self._writer.close()

"""A run in MLflow: its settings, every round, its summary."""

import fcntl
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from fedsim.runs.callbacks import RoundRow
from fedsim.runs.trackers.base import (
    Reports,
    Sums,
    Tracker,
    finite_numbers,
    run_names,
    scores_of,
    tracked_settings,
    write_names,
)

EXPERIMENT = "fedsim"

_ENDS = {"done": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_REPORTS = Reports("MLFLOW_DISABLE_TELEMETRY", "true")
_LONGEST = 5000
"""The characters of a parameter or tag that every store accepts."""


class MLflow(Tracker):
    """Writes a run to MLflow; steps are rounds, metrics the columns of a round.

    MLflow's own variables choose where to: ``MLFLOW_TRACKING_URI`` (default: MLflow's, a file
    ``mlflow.db`` in the working folder), ``MLFLOW_EXPERIMENT_NAME`` (default: ``fedsim``). The
    summary's numbers are metrics ``summary/NAME``. A run that goes on has every round once, and
    the parameters with which it began.

    Args:
        folder: of the run, or another that is its own.

    Example:
        run(config, callbacks=[MLflow("logs/one")])
    """

    package = "mlflow"
    _id = ""

    def begin(self, description: Mapping[str, Any], rows: Sequence[RoundRow]) -> None:
        _REPORTS.turn_off(self)
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)  # of making tables
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        # A process at a time: MLflow makes the tables of a new file, and two break each other's.
        with (Path(gettempdir()) / f"fedsim-mlflow-{os.getuid()}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._client: Any = MlflowClient()
            experiment = self._client.get_experiment_by_name(name)
            place = experiment.experiment_id if experiment else self._client.create_experiment(name)
        names = run_names(self.folder)
        if self.package in names:
            self._id = names[self.package]
            self._client.update_run(self._id, status="RUNNING")
            self._done = self._client.get_run(self._id).data.metrics.get("round", 0.0)
        else:
            group = {"group": names["group"]} if names["group"] else {}
            run = self._client.create_run(place, run_name=names["name"], tags=group)
            self._id, self._done = run.info.run_id, 0.0
            params = [Param(k, str(v)[:_LONGEST]) for k, v in tracked_settings(description).items()]
            self._client.log_batch(self._id, params=params)
            write_names(self.folder, names | {self.package: self._id})
        self._sums = Sums()
        for row in rows:
            self.round(row)

    def write(self, row: RoundRow) -> None:
        columns = self._sums.columns(row)
        if row["round"] > self._done:  # MLflow has the rounds before
            self._log(columns, int(row["round"]))

    def write_scores(self, row: RoundRow) -> None:
        if row["round"] >= self._done:
            self._log(scores_of(row), int(row["round"]))

    def end(self, summary: Mapping[str, Any]) -> None:
        try:
            self._end(summary)
        finally:
            _REPORTS.restore(self)

    def _end(self, summary: Mapping[str, Any]) -> None:
        if not self._id:  # it did not begin
            return
        values = finite_numbers(summary)
        self._log({f"summary/{name}": value for name, value in values.items()}, summary["rounds"])
        if summary["error"]:
            self._client.set_tag(self._id, "error", summary["error"][:_LONGEST])
        self._client.set_terminated(self._id, _ENDS[summary["status"]])

    def _log(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self._id, [Metric(k, v, now, step) for k, v in values.items()])

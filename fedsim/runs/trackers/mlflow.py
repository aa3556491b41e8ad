"""A run in MLflow: its settings, every round, its summary."""

import fcntl
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from fedsim.runs.trackers.base import Service, finite_numbers, write_names

EXPERIMENT = "fedsim"

_ENDS = {"done": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_LONGEST = 5000
"""The characters of a parameter or tag that every store accepts."""


class MLflow(Service):
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

    package, reports_off = "mlflow", ("MLFLOW_DISABLE_TELEMETRY", "true")
    _id = ""

    def open(self, names: dict[str, Any], settings: dict[str, Any]) -> tuple[float, float]:
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
        if self.package in names:
            self._id = names[self.package]
            self._client.update_run(self._id, status="RUNNING")
            done = self._client.get_run(self._id).data.metrics.get("round", 0.0)
            return done + 1, done
        group = {"group": names["group"]} if names["group"] else {}
        run = self._client.create_run(place, run_name=names["name"], tags=group)
        self._id = run.info.run_id
        params = [Param(key, str(value)[:_LONGEST]) for key, value in settings.items()]
        self._client.log_batch(self._id, params=params)
        write_names(self.folder, names | {self.package: self._id})
        return 1, 1

    def end(self, summary: Mapping[str, Any]) -> None:
        if not self._id:  # it did not begin
            return
        values = {f"summary/{name}": value for name, value in finite_numbers(summary).items()}
        self.log(values, summary["rounds"], complete=True)
        if summary["error"]:
            self._client.set_tag(self._id, "error", summary["error"][:_LONGEST])
        self._client.set_terminated(self._id, _ENDS[summary["status"]])

    def log(self, values: dict[str, float], step: int, complete: bool) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self._id, [Metric(k, v, now, step) for k, v in values.items()])

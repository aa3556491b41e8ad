"""A run in Weights & Biases: its settings, every round, its summary."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from fedsim.ground.errors import writing
from fedsim.runs.trackers.base import Service, tracked_settings, write_names

PROJECT = "fedsim"

_open: dict[str, Any] = {}
"""W&B's runs by id; what a user has interrupted is still open for W&B, and begins anew."""


class Wandb(Service):
    """Writes a run to Weights & Biases; steps are rounds, metrics the columns of a round.

    W&B's own variables choose where to: ``WANDB_PROJECT`` (default: ``fedsim``), ``WANDB_ENTITY``,
    ``WANDB_MODE``. With ``WANDB_MODE=offline`` nothing is sent: the run lies in ``wandb/`` in the
    folder, for ``wandb sync``. A run that goes on has every round once.

    Args:
        folder: of the run, or another that is its own.

    Example:
        run(config, callbacks=[Wandb("logs/one")])
    """

    package, reports_off = "wandb", ("WANDB_ERROR_REPORTING", "false")
    _run: Any = None

    def open(self, names: dict[str, Any], settings: dict[str, Any]) -> tuple[float, float]:
        import wandb

        if self.package not in names:
            write_names(self.folder, names := names | {self.package: uuid4().hex[:12]})
        before = [*self.folder.glob(f"wandb/offline-run-*-{names[self.package]}")]
        if names[self.package] in _open:
            _open[names[self.package]].finish(exit_code=1)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=names[self.package],
            name=names["name"],
            group=names["group"],
            dir=str(self.folder),
            resume="allow",
            config=settings,
            allow_val_change=True,
            reinit="create_new",
            settings=wandb.Settings(console="off", silent=True),
        )
        _open[self._run.id] = self._run
        if self._run.settings.mode == "offline":  # which cannot go on: all is written again
            with writing(self.folder):
                for path in {*before} - {Path(self._run.dir).parent}:
                    shutil.rmtree(path)
        return self._run.starting_step, self._run.starting_step

    def log(self, values: dict[str, float], step: int, complete: bool) -> None:
        # To a step that is committed W&B adds nothing; that of the next round commits it.
        self._run.log(values, step=step, commit=complete)

    def end(self, summary: Mapping[str, Any]) -> None:
        if self._run is not None:  # it began
            self._run.summary.update(tracked_settings(summary))
            del _open[self._run.id]
            self._run.finish(exit_code=int(summary["status"] == "failed"))

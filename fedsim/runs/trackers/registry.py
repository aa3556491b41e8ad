"""The trackers that ``--track`` names."""

from pathlib import Path
from typing import Any

from fedsim.runs.trackers.base import Tracker
from fedsim.runs.trackers.mlflow import MLflow
from fedsim.runs.trackers.tensorboard import TensorBoard
from fedsim.runs.trackers.wandb import Wandb
from fedsim.settings.groups import TRACKERS

TRACKER_KINDS: dict[str, type[Tracker]] = dict(
    zip(TRACKERS, (TensorBoard, Wandb, MLflow), strict=True)
)


def check_tracker(track: str | None) -> None:
    """Raises ``UsageError`` where the package of a tracker is missing."""
    for kind in _kinds(track):
        kind.check()


def trackers(track: str | None, folder: Path) -> list[Tracker]:
    """The trackers that follow the run in a folder."""
    return [kind(folder) for kind in _kinds(track)]


def export(track: str | None, folder: Path, summary: dict[str, Any]) -> None:
    """Tells trackers of a finished run, from its ``rounds.parquet``, if they do not have it."""
    for tracker in trackers(track, folder):
        if not tracker.in_tracker:
            import pandas as pd

            rows = pd.read_parquet(folder / "rounds.parquet").to_dict("records")
            tracker.begin(summary, rows)
            tracker.end(summary)


def _kinds(track: str | None) -> list[type[Tracker]]:
    return [TRACKER_KINDS[name] for name in track.split(",")] if track else []

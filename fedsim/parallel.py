"""Several runs: one after the other here, or side by side as Ray tasks of one core each."""

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedsim.config import RunConfig
from fedsim.errors import UsageError
from fedsim.run import run

Work = tuple[str, RunConfig, Path]
Progress = Callable[[str, dict[str, Any]], None]

_POLL_SECONDS = 0.2


def run_here(work: Sequence[Work], progress: Progress | None) -> None:
    """Runs each in this process; one that fails has recorded so itself."""
    for name, config, folder in work:
        _attempt(config, folder, _named(name, progress))


def _named(name: str, progress: Progress | None) -> Callable[[dict[str, Any]], None] | None:
    return None if progress is None else lambda row: progress(name, row)


def _attempt(
    config: RunConfig, folder: Path, progress: Callable[[dict[str, Any]], None] | None
) -> None:
    # ``run`` writes what went wrong into the folder before it raises.
    with contextlib.suppress(Exception):
        run(config, folder, progress)


def run_on_ray(
    work: Sequence[Work], jobs: int, address: str | None, progress: Progress | None
) -> None:
    """Runs up to ``jobs`` at a time on Ray: the cluster at ``address``, or one started here.

    Raises ``UsageError`` where no cluster answers at ``address``. A run that Ray loses
    (a killed worker) leaves its checkpoint; the same command goes on from there.
    """
    import ray

    board_type: Any = ray.remote(num_cpus=0)(_Board)
    attempt = ray.remote(num_cpus=1, max_retries=0)(_attempt_on_ray)
    _start(jobs, address)
    try:
        board = board_type.remote()
        waiting = list(work)
        running: dict[Any, str] = {}
        while waiting or running:
            while waiting and len(running) < jobs:
                name, config, folder = waiting.pop(0)
                running[attempt.remote(name, config, folder, board)] = name
            ended, _ = ray.wait(list(running), timeout=_POLL_SECONDS)
            for name, row in ray.get(board.take.remote()):
                if progress:
                    progress(name, row)
            for task in ended:
                del running[task]
    finally:
        ray.shutdown()


def _start(jobs: int, address: str | None) -> None:
    import ray

    if address is None:
        ray.init(
            num_cpus=jobs, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
        )
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"--ray-address is {address!r}: no Ray cluster there ({error})") from error


class _Board:
    """Where runs on other processes pin their rows until the driver takes them down."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, dict[str, Any]]] = []

    def pin(self, name: str, row: dict[str, Any]) -> None:
        self._rows.append((name, row))

    def take(self) -> list[tuple[str, dict[str, Any]]]:
        rows, self._rows = self._rows, []
        return rows


def _attempt_on_ray(name: str, config: RunConfig, folder: Path, board: Any) -> None:
    last = 0.0

    def progress(row: dict[str, Any]) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _POLL_SECONDS or row["round"] == config.plan.rounds:
            last = now
            board.pin.remote(name, row)

    _attempt(config, folder, progress)

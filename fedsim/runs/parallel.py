"""Several runs: one after the other here, or in parallel as Ray tasks of one core each.

Runs in parallel on one machine's CPU are in ``fedsim.runs.processes``.
"""

import logging
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from compressors.usercode import typed
from fedsim.engines import cluster
from fedsim.ground.errors import UsageError, resumed, without_home, writing
from fedsim.ground.extras import check_extra
from fedsim.ground.files import write_text
from fedsim.results.schema import read_summary, write_run
from fedsim.runs import devices, lock
from fedsim.runs.archive import Archive, Board, Pinned, unmark
from fedsim.runs.callbacks import Callback, Several
from fedsim.runs.progress import Named
from fedsim.runs.remoterun import RemoteRun, warn_of_unshared_folders
from fedsim.runs.run import carry_out, describe_run, engine_of
from fedsim.settings.config import RunConfig

RunSpec = tuple[str, RunConfig, Path]

ProgressCallback = Callable[[str, dict[str, Any]], str | None]
"""Called with a run's name and the row of a round; returns why the run is to end there, or None.

Of several at a time some rounds without an evaluation are left out: sums are the row's own
(``up_bits``)."""

Ended = Callable[[str], None]
"""Called with the name of a run that has ended, before the next one is taken."""

TRIES = 3
_ORPHAN_SECONDS, _CANCEL_SECONDS = 30.0, 10.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Tries:
    """Runs whose worker was lost: each is tried again from its checkpoint, twice at most."""

    def __init__(self, work: Iterable[RunSpec]) -> None:
        self._work, self._lost, self._again = iter(work), Counter[str](), list[RunSpec]()

    def next(self) -> RunSpec | None:
        """The next run that can begin; None: there is none now."""
        return self._again.pop() if self._again else next(self._work, None)

    def goes_on(self, item: RunSpec, reason: str) -> bool:
        """Whether a run is tried again, with a message; else it was lost every time."""
        name = item[0]
        self._lost[name] += 1
        if self._lost[name] == TRIES:
            return False
        logging.getLogger("fedsim").warning(
            "%s: %s; it goes on from its last checkpoint, if any: try %d of %d",
            name,
            reason,
            self._lost[name] + 1,
            TRIES,
        )
        self._again.append(item)
        return True


def run_here(
    work: Iterable[RunSpec], progress: ProgressCallback | None, ended: Ended = lambda name: None
) -> None:
    """Runs each in this process; a run that fails leaves that in its folder.

    ``work`` is asked for a run when the one before has ended.
    """
    for name, config, folder in work:
        attempt(config, folder, Several([] if progress is None else [Named(name, progress)]))
        ended(name)


def attempt(config: RunConfig, folder: Path, follower: Callback) -> None:
    """Runs ``config`` in ``folder``; a run that fails leaves that there.

    A folder to which another process writes is left to it.
    """
    try:
        with lock.locked(folder, _ORPHAN_SECONDS):  # until a killed sweep's worker has ended, too
            file = folder / "summary.json"
            if file.exists() and read_summary(folder)["status"] != "done":
                file.unlink()  # of a try that failed; a worker may have finished the run meanwhile
        carry_out(config, folder, *engine_of(config), follower, extendable=False)  # cells are many
    except lock.FolderBusy as error:
        logging.getLogger("fedsim").warning("%s", error)
    except Exception as error:
        record(config, folder, error)


def record(config: RunConfig, folder: Path, error: Exception) -> None:
    """Writes why a run failed, unless ``run`` did, which it cannot before the model is built.

    Ray wraps what a worker raised in an error of its own, in colours.
    """
    if (folder / "summary.json").exists():
        return
    cause = getattr(error, "cause", None) or error
    reason = resumed(_COLOURS.sub("", typed(cause)).splitlines()[0], cause)
    failed = {"status": "failed", "error": without_home(reason)}
    trace = "".join(traceback.format_exception(error))
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)  # somebody may have removed it
        write_text(folder / "error.txt", without_home(_COLOURS.sub("", trace)))
        write_run(folder, describe_run(config, None) | failed)


def run_on_ray(
    work: Iterable[RunSpec],
    jobs: int,
    address: str | None,
    progress: ProgressCallback | None,
    ended: Ended = lambda name: None,
) -> None:
    """Runs up to ``jobs`` at a time on Ray: the cluster at ``address``, or one started here.

    ``work`` returns the next run when one can begin, after ``ended`` was called for all before.
    If Ray loses a run's worker (killed, out of memory), the run goes on from its checkpoint on
    another, with a message, twice at most; then it is recorded as failed. A machine that does not
    see a run's folder sends checkpoints as they are made, and all files when the run has ended.

    Raises ``UsageError`` where no cluster answers at ``address``.
    """
    check_extra("ray", f"--jobs {jobs} on Ray")
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=1, max_retries=0)(_attempt_on_ray)
    cluster.connect(jobs, address, f"--jobs is {jobs}")
    try:
        # on the driver's own machine: no other that is lost takes the board with it
        actor: Any = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Board)
        node_id = ray.get_runtime_context().get_node_id()
        on_node = NodeAffinitySchedulingStrategy(node_id, soft=False)
        board = actor.options(scheduling_strategy=on_node).remote()
        rows = board.take.remote()
        tries = Tries(work)
        running: dict[Any, RunSpec] = {}
        first = True
        while True:
            while len(running) < jobs and (item := tries.next()):
                gpus = devices.gpus_per_run(item[1], jobs)
                limit = max((n["Resources"].get("GPU", 0.0) for n in ray.nodes()), default=0.0)
                if gpus > limit:  # Ray would wait without end
                    raise UsageError(
                        f"--gpus-per-run is {gpus:g}: no machine of the Ray cluster has more than "
                        f"{limit:g}"
                    )
                remote_run = RemoteRun.of(*item)
                if address is not None and first:
                    warn_of_unshared_folders(remote_run)
                first = False
                running[task.options(num_gpus=gpus).remote(remote_run, board)] = item
            if not running:
                ray.cancel(rows)  # a task that waits while Ray ends is an error on the terminal
                ray.wait([rows], timeout=_CANCEL_SECONDS)
                break
            (ready,), _ = ray.wait([*running, rows])
            if ready == rows:
                rows = _answered(board, rows, progress)
            elif not _goes_on(ready, item := running.pop(ready), tries):
                ended(item[0])
    finally:
        ray.shutdown()


def _answered(board: Any, rows: Any, progress: ProgressCallback | None) -> Any:
    """Hands on the rows from the board, and lets their runs go on or end; the next rows."""
    import ray

    pinned: list[Pinned] = ray.get(rows)
    for p in pinned:
        try:
            if p.archive is not None:
                p.archive.unpack(p.archive.home)
        except OSError as error:
            logging.getLogger("fedsim").warning(
                "%s: its checkpoint cannot be kept (%s)", p.name, error
            )
    board.answer.remote({p.key: progress(p.name, p.row) if progress else None for p in pinned})
    return board.take.remote()


def _goes_on(task: Any, item: RunSpec, tries: Tries) -> bool:
    """Whether a run whose Ray task has ended waits for another try; takes in what it has sent.

    A run whose worker is gone is tried again; one that raised, or is lost every time, is recorded.
    """
    import ray
    from ray.exceptions import RayTaskError

    _, config, folder = item
    again = False
    try:
        archive: Archive | None = ray.get(task)
        if archive is not None:
            archive.unpack(archive.home)
    except ray.exceptions.RayError as error:
        lost = f"Ray lost its worker ({type(error).__name__})"
        again = not isinstance(error, RayTaskError) and tries.goes_on(item, lost)
        if not again:
            record(config, folder, error)
    except OSError as error:  # the others may fit there
        record(config, folder, error)
    unmark(folder)
    return again


def _attempt_on_ray(remote_run: RemoteRun, board: Any) -> Archive | None:
    return remote_run.carry_out(attempt, board)

"""A run as a Ray task: what its worker receives, reports meanwhile, and returns."""

import logging
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedsim.ground.errors import StoppedEarly
from fedsim.runs.archive import Archive, Outbox, mark, pack_folder, sees
from fedsim.runs.callbacks import Callback, RoundRow
from fedsim.runs.trackers.base import run_names
from fedsim.settings.config import RunConfig
from fedsim.settings.sentconfig import SentConfig

Attempt = Callable[[RunConfig, Path, Callback], None]
Pin = Callable[[dict[str, Any], Archive | None], str | None]

_SHOWN_SECONDS = 0.2
"""The least time between reported rows without an evaluation; ``up_bits`` counts all rounds."""

_PROBE_SECONDS = 60.0


@dataclass(frozen=True)
class RemoteRun:
    """A run as it is sent to a worker."""

    name: str
    config: SentConfig
    token: str  # shows the worker whether it sees the run's folder
    archive: Archive  # files from which the run goes on, if the worker does not see its folder
    cwd: Path  # the folder in which the driver was started; paths in the settings start there

    @classmethod
    def of(cls, name: str, config: RunConfig, folder: Path) -> "RemoteRun":
        """The task of a run whose results are to be in ``folder``, in which a token is left."""
        home = folder.resolve()
        if config.keep.track:
            run_names(home)  # by its folder, which its worker may not see
        return cls(name, SentConfig(config), mark(home), pack_folder(home), Path.cwd())

    def carry_out(self, attempt: Attempt, board: Any) -> Archive | None:
        """Runs in the folder itself where this machine sees it; else in another, and returns that.

        ``board``: of the driver (``fedsim.runs.archive``).
        """
        import ray

        def pin(row: dict[str, Any], archive: Archive | None) -> str | None:
            return ray.get(board.pin.remote(self.name, row, archive))

        config, home = self.config.config, self.archive.home
        if self.cwd.is_dir():
            os.chdir(self.cwd)
        if sees(home, self.token):
            attempt(config, home, Pins(pin))
            return None
        with TemporaryDirectory(prefix="fedsim-") as place:
            folder = Path(place)
            self.archive.unpack(folder)
            outbox = Outbox(folder, home)
            attempt(config, folder, Pins(pin, outbox))
            return outbox.pack()


class Pins(Callback):
    """Tells whoever started a run of its rounds, and sends checkpoints.

    ``pin`` takes a row, and files for another machine; what it returns, if anything, ends the run.
    """

    def __init__(self, pin: Pin, outbox: Outbox | None = None) -> None:
        self._pin, self._outbox, self._last = pin, outbox, 0.0

    def round(self, row: RoundRow) -> None:
        """Reports a row; raises ``StoppedEarly`` if the answer is to end the run."""
        now, archive = time.monotonic(), None
        if self._outbox is not None and self._outbox.has_checkpoint():
            archive = self._outbox.pack()
        scored = not math.isnan(row["metric"])
        if archive or now - self._last > _SHOWN_SECONDS or row["last"] or scored:
            self._last = now
            if reason := self._pin(dict(row), archive):
                raise StoppedEarly(reason)


def warn_of_unshared_folders(remote_run: RemoteRun) -> None:
    """Says which machines of the cluster do not see the run's folder: their files are sent."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe: Any = ray.remote(num_cpus=0, max_retries=0)(sees)
    probes: dict[Any, str] = {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU"):
            on_node = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            remote = probe.options(scheduling_strategy=on_node)
            probe_of_node = remote.remote(remote_run.archive.home, remote_run.token)
            probes[probe_of_node] = node["NodeManagerHostname"]
    answered, _ = ray.wait(list(probes), num_returns=len(probes), timeout=_PROBE_SECONDS)
    hosts = set()
    for answer in answered:
        with suppress(ray.exceptions.RayError):  # the machine is lost meanwhile: no run goes there
            hosts |= {probes[answer]} if not ray.get(answer) else set()
    if hosts:
        logging.getLogger("fedsim").warning(
            "%s is not the same folder on %s: the files of runs there come home through Ray, "
            "checkpoints as they are made, all others when a run has ended",
            remote_run.archive.home,
            ", ".join(sorted(hosts)),
        )

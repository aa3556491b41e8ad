"""What a run leaves on disk, round by round."""

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.federation import ledger
from fedsim.federation.client_memory import InProcess
from fedsim.federation.server import Server
from fedsim.ground.errors import writing
from fedsim.ground.files import write_bytes, write_parquet
from fedsim.runs import checkpoint
from fedsim.runs.checkpoint import Checkpoint
from fedsim.runs.tensorboard import Scalars
from fedsim.settings.config import CHECKPOINT_SECONDS, RunConfig
from strategies import RoundTraffic
from strategies.channel.beside import BUFFERS

Progress = Callable[[dict[str, Any]], None]
"""Called with the row of every round, ``up_bits`` (the upstream bits so far of a client that takes
part in every round), and ``last``: whether the run ends with this round."""


class FolderRecorder:
    """Keeps rows in memory and, with checkpoints, on disk; writes payloads as they pass.

    Args:
        folder: the run's folder, which exists.
        config: the run.
        states: the clients' memory where it can be checkpointed; None: no checkpoints (on Ray
            that memory lives in Flower's contexts, and a run that was killed starts again).
        progress: called with every round's row.
        trained: how many entries of the model are trained.
    """

    def __init__(
        self, folder: Path, config: RunConfig, states: InProcess | None,
        progress: Progress | None, trained: int,
    ) -> None:  # fmt: skip
        self.folder, self.config, self.states, self.progress = folder, config, states, progress
        self.trained = trained
        self.rows: list[dict[str, Any]] = []
        self.client_rows: list[dict[str, Any]] = []
        self.layer_rows: list[dict[str, Any]] = []
        loaded = checkpoint.load(folder)  # clears what a kill left behind, on any engine
        self._loaded = loaded if states is not None else None
        self._scalars: Scalars | None = None
        self._saved_at = time.monotonic()
        if self._loaded is not None and states is not None:
            self.rows, self.client_rows = self._loaded.rounds, self._loaded.client_rows
            self.layer_rows = self._loaded.layer_rows
            states.states.update(self._loaded.clients)
        self.up_bits = sum(map(_up_bits, self.rows))
        self.sim_seconds = float(self.rows[-1].get("sim_end_seconds", 0.0)) if self.rows else 0.0

    @property
    def rounds_done(self) -> int:
        """Rounds in the checkpoint from which the run goes on, and those since."""
        return len(self.rows)

    @property
    def iterations_done(self) -> int:
        """See ``Recorder.iterations_done``."""
        return int(self.rows[-1]["iteration"]) if self.rows else 0

    def resume(self, server: Server) -> None:
        """See ``Recorder.resume``."""
        if self._loaded is not None:
            server.restore(self._loaded.server, self._loaded.values)

    def round(
        self, row: dict[str, Any], clients: Iterable[dict[str, Any]], trip: RoundTraffic,
        server: Server,
    ) -> None:  # fmt: skip
        """See ``Recorder.round``."""
        if self.config.keep.tensorboard:
            with writing(self.folder):
                self._tell(row)
        self.rows.append(row)
        self.up_bits += _up_bits(row)
        self.client_rows.extend(clients)
        if not math.isnan(row["metric"]):  # rows per tensor and round would outgrow the rest
            self.layer_rows.extend(ledger.layer_rows(trip))
        with writing(self.folder):
            if self.config.keep.payloads:
                for part in trip.parts:
                    self._keep(part)
            if self.states is not None and self._due(row["round"], row["iteration"]):
                self._checkpoint(row["round"], server, self.states)
        if self.progress:
            last = self.config.plan.ends(row["iteration"], self.up_bits)
            self.progress(row | {"up_bits": self.up_bits, "last": last})

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Rounds, and clients by round."""
        return pd.DataFrame(self.rows), pd.DataFrame(self.client_rows)

    def write_frames(self) -> None:
        """Writes ``rounds.parquet``, ``clients.parquet`` and ``layers.parquet``."""
        if self._scalars is not None:
            self._scalars.close()
        rounds, clients = self.frames()
        write_parquet(self.folder / "rounds.parquet", rounds)
        write_parquet(self.folder / "clients.parquet", clients)
        if self.layer_rows:
            write_parquet(self.folder / "layers.parquet", pd.DataFrame(self.layer_rows))

    def _tell(self, row: dict[str, Any]) -> None:
        if self._scalars is None:
            metric = self.config.plan.task.metric_name
            self._scalars = Scalars(self.folder, self.trained, metric, self.rows)
        self._scalars(row)

    def _due(self, number: int, iteration: int) -> bool:
        if self.config.plan.ends(iteration, self.up_bits):
            return False  # a finished run needs no checkpoint
        if self.config.keep.checkpoint_every is not None:
            return number % self.config.keep.checkpoint_every == 0
        return time.monotonic() - self._saved_at > CHECKPOINT_SECONDS

    def keep_end(self, server: Server) -> None:
        """Keeps the memory that a longer run would go on from, if it is small or asked for."""
        checkpoint.forget_end(self.folder)  # an earlier attempt may have left one
        if self.states is not None:
            end = self._memory(len(self.rows), server, self.states)
            if self.config.keep.checkpoint or end.bytes <= checkpoint.KEPT_BYTES:
                checkpoint.save_end(self.folder, end)

    def _checkpoint(self, number: int, server: Server, states: InProcess) -> None:
        checkpoint.save(self.folder, self._memory(number, server, states))
        self._saved_at = time.monotonic()

    def _memory(self, number: int, server: Server, states: InProcess) -> Checkpoint:
        tensors, values = server.state()
        clients = states.copy()
        rows = self.rows, self.client_rows, self.layer_rows
        return Checkpoint(number, tensors, values, clients, *rows)

    def _keep(self, trip: RoundTraffic) -> None:
        """``payloads/round-00001/client-003-up.bin``, and what each client was sent."""
        folder = self.folder / "payloads" / f"round-{trip.round:05d}"
        folder.mkdir(parents=True, exist_ok=True)
        for client, up in trip.uplinks.items():
            write_bytes(folder / f"client-{client:03d}{trip.place}-up.bin", up.payload)
            if BUFFERS in up.beside:
                write_bytes(folder / f"client-{client:03d}-up.buffers", up.beside[BUFFERS])
        for client, down in trip.downlinks.items():
            charged = "" if down.charged else "-free"
            name = f"client-{client:03d}{trip.place}-down-{down.kind}{charged}.bin"
            write_bytes(folder / name, down.payload)
            if BUFFERS in down.beside:
                name = f"client-{client:03d}-down{charged}.buffers"
                write_bytes(folder / name, down.beside[BUFFERS])


def _up_bits(row: dict[str, Any]) -> float:
    """Of a client of the round."""
    return ledger.of_each(row["up_wire_bits"], row["clients"])

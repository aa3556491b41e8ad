"""Recording of a run, round by round: rows in memory, checkpoints and messages in its folder."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.serverapp import Grid

from compressors.usercode import encodable
from fedsim.federation import ledger
from fedsim.federation.client_memory import Memories
from fedsim.federation.server import Server
from fedsim.ground.columns import Rows, row_of, typed
from fedsim.ground.errors import without_home, writing
from fedsim.ground.files import write_bytes, write_parquet
from fedsim.ground.records import ClientRecord, LayerRecord, RoundRecord
from fedsim.runs import checkpoint
from fedsim.runs.callbacks import Callback
from fedsim.runs.checkpoint import Checkpoint
from fedsim.runs.replies import RecordingGrid, ReplyStore
from fedsim.runs.totals import failed
from fedsim.settings.config import CHECKPOINT_SECONDS, RunConfig
from strategies import RoundTraffic
from strategies.channel.payload import BUFFERS

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

ERRORS = "client-errors.txt"
"""In a run's folder, where the app of a client raised."""

_TRACES = 20

_PAUSE = 20
"""The pause after a checkpoint is at least so many times as long as it took to write."""


class Folder:
    """A run's folder, which exists, while it is trained: checkpoints, and messages as they pass."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path, self.config = path, config
        # clears what a kill left behind, on any engine
        self.loaded = checkpoint.load_checkpoint(path)
        self._last = self.loaded.round if self.loaded else 0
        self._saved_at, self._save_seconds = time.monotonic(), 0.0
        self.replies = ReplyStore(path)
        self._raised: set[str] = set()  # errors of clients whose tracebacks are written

    def recording(self, main: Callable[[Grid], None]) -> Callable[[Grid], None]:
        """``main`` over a grid whose replies are kept, where messages are to be."""
        if not self.config.keep.payloads:
            return main
        return lambda grid: main(RecordingGrid(grid, self.replies))

    def check(self) -> None:
        """Raises ``RunFailed`` if the folder was removed, even if it exists again.

        Writing a client's memory creates it again. Results that are written from then on would lack
        the run's settings.
        """
        with writing(self.path):
            (self.path / "config.toml").stat()

    def save(self, state: Checkpoint) -> None:
        """Writes a checkpoint, and keeps the one that was written or loaded before it."""
        self.check()
        checkpoint.save_checkpoint(self.path, state, self._last)
        self._last, self._saved_at = state.round, time.monotonic()

    def errors(self, number: int, traffic: RoundTraffic) -> None:
        """Adds to ``client-errors.txt`` the first traceback of each error of a client's app."""
        for key, trace in traffic.traces.items():
            error = trace.splitlines()[-1]
            if error in self._raised or len(self._raised) == _TRACES:
                continue
            self._raised.add(error)
            with (self.path / ERRORS).open("a", encoding="utf-8") as file:
                title = f"round {number}, client {traffic.client_of(key)}:"
                file.write(f"{title}\n{without_home(encodable(trace))}\n\n")

    def round(
        self,
        number: int,
        traffic: RoundTraffic,
        memory: Callable[[], Checkpoint] | None,
        always: bool = False,
    ) -> None:
        """Keeps what a round leaves: ``payloads/round-00001/client-003-up.bin``, and checkpoints.

        With them go the replies that ``RecordingGrid`` has seen (``fedsim.runs.replies``).
        ``memory``: the run's, for a checkpoint; None: none is wanted, or can be had. ``always``:
        whether every round has a checkpoint.
        """
        interval, keeps = self.config.keep.checkpoint_every, self.config.keep.payloads
        pause = max(CHECKPOINT_SECONDS, _PAUSE * self._save_seconds)
        late = time.monotonic() - self._saved_at > pause
        due = always or (late if interval is None else number % interval == 0)
        if not (traffic.traces or keeps or (due and memory is not None)):
            return
        with writing(self.path):
            if traffic.traces:
                self.errors(number, traffic)
            for part in traffic.parts if keeps else ():
                folder = self.path / "payloads" / f"round-{part.round:05d}"
                folder.parent.mkdir(exist_ok=True)  # in a run's folder that is there: else it fails
                folder.mkdir(exist_ok=True)
                for client, up in part.uplinks.items():
                    write_bytes(folder / f"client-{client:03d}{part.place}-up.bin", up.payload)
                    if BUFFERS in up.side_payloads:
                        write_bytes(
                            folder / f"client-{client:03d}-up.buffers", up.side_payloads[BUFFERS]
                        )
                for client, down in part.downlinks.items():
                    free = "" if down.charged else "-free"
                    name = f"client-{client:03d}{part.place}-down-{down.kind}{free}.bin"
                    write_bytes(folder / name, down.payload)
                    if BUFFERS in down.side_payloads:
                        name = f"client-{client:03d}-down{free}.buffers"
                        write_bytes(folder / name, down.side_payloads[BUFFERS])
            if keeps:
                self.replies.keep(traffic)
            if memory is not None and due:
                start = time.monotonic()
                self.save(memory())
                self._save_seconds = self._saved_at - start


class RunRecords:
    """The rows of a run; the server's ``Recorder``, with a folder or without.

    Args:
        config: the run.
        follower: told of every round.
        states: the clients' memory; None: a run that was killed starts again. Where it is at the
            clients' nodes every round has a checkpoint: they are at most a round ahead.
        before: what the run goes on from; None: its start.
        folder: where checkpoints and messages go; None: nowhere.
    """

    def __init__(
        self,
        config: RunConfig,
        follower: Callback,
        states: Memories | None = None,
        before: Checkpoint | None = None,
        folder: Folder | None = None,
    ) -> None:
        self.config, self.follower, self.states, self.folder = config, follower, states, folder
        self._before, self._plan = before, config.plan
        # clients that keep their memory themselves may be ahead of a checkpoint
        self._afar = states is not None and not states.is_local
        self.rows, self.client_rows, self.layer_rows = Rows(), Rows(), Rows()
        if before is not None and states is not None:
            self.rows, self.client_rows = Rows(before.rounds), Rows(before.client_rows)
            self.layer_rows = Rows(before.layer_rows)
        self.follower_rows: list[dict[str, Any]] = []  # the rows before, as a follower has them
        self.up_bits = self.total_bits = self.spent = self.used_iterations = self.joules = 0.0
        self.scored, self.ended, self.rounds_done, self.iterations_done = True, False, 0, 0
        for row in self.rows:
            self.follower_rows.append(self._for_follower(row))
        self._last = self.follower_rows[-1] if self.follower_rows else {}
        self._scored_late: dict[str, Any] | None = None  # of which the follower does not know yet
        self.sim_seconds = float(self._last.get("sim_end_seconds", 0.0))

    def resume(self, server: Server) -> None:
        if self._before is not None:
            server.restore(self._before.server, self._before.values)
        if self._afar and self.folder is not None:
            if self._before is None:  # clients keep what they do in round 1 under its channel
                self.folder.save(self.memory(server))
            else:
                server.strategy.end.go_on(checkpoint.gone_on(self.folder.path))

    def round(
        self,
        row: dict[str, Any],
        clients: Iterable[dict[str, Any]],
        traffic: RoundTraffic,
        server: Server,
    ) -> None:
        self.rows.extend([row])
        follower_row = self._for_follower(row)
        follower_row["last"] = follower_row["last"] or server.exhausted
        self.client_rows.extend(clients)
        if self.scored:  # rows per tensor and round would outgrow the rest
            self.layer_rows.extend(map(row_of, ledger.layer_records(traffic, server.initial)))
        if self.folder is not None:  # a finished run needs no checkpoint
            ends = self.states is None or follower_row["last"]
            memory = None if ends else partial(self.memory, server)
            self.folder.round(row["round"], traffic, memory, self._afar)
        late, self._scored_late, self._last = self._scored_late, None, follower_row
        if late is not None:
            self.follower.evaluation(late)
        self.follower.round(follower_row)
        if self.scored:
            self.follower.evaluation(follower_row)

    def score(self, columns: dict[str, float]) -> None:
        self.rows.amend(columns)
        self.scored = not math.isnan(columns["metric"])
        self._scored_late = {**self._last, **columns}

    def _for_follower(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row as a follower has it, once the sums over all rows have it."""
        plan, self.scored = self._plan, not math.isnan(row["metric"])
        self.rounds_done, self.iterations_done = self.rounds_done + 1, int(row["iteration"])
        self.up_bits += ledger.bits_of_each(row, "up")
        self.total_bits += ledger.bits_of_each(row, "total")
        self.spent = self.up_bits if plan.budget_of == "up" else self.total_bits
        if plan.by_client:
            self.used_iterations += ledger.used_iterations(row)
        self.joules += row.get("energy_joules", 0.0)
        self.ended = plan.ends(row["round"], row["iteration"], self.spent, self.joules)
        return row | {"up_bits": self.up_bits, "spent": self.spent, "last": self.ended}

    def memory(self, server: Server) -> Checkpoint:
        """Everything from which the run goes on."""
        assert self.states is not None
        tensors, values = server.state()
        rows = self.rows, self.client_rows, self.layer_rows
        return Checkpoint(self.rounds_done, tensors, values, self.states.copy(), *rows)

    def frames(self) -> dict[str, pd.DataFrame]:
        """The tables ``rounds`` and ``clients``, and ``layers`` where entries were counted."""
        tables = (
            ("rounds", self.rows, RoundRecord),
            ("clients", self.client_rows, ClientRecord),
            ("layers", self.layer_rows, LayerRecord),
        )
        return {
            name: typed(rows.frame(), record)
            for name, rows, record in tables
            if rows or name != "layers"
        }

    def failures(self) -> dict[str, Any]:
        """The columns of a summary that count replies which were not used; none before a round."""
        tables = self.frames()
        return failed(tables["rounds"], tables["clients"]) if self.rows else {}


def write_run_tables(folder: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Writes ``rounds.parquet``, ``clients.parquet`` and ``layers.parquet``."""
    for name, table in tables.items():
        write_parquet(folder / f"{name}.parquet", table)

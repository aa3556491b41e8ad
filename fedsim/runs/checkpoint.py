"""A run's whole memory on disk: complete or absent, and never pickled.

A checkpoint is a folder ``checkpoint-<round>`` that is written under a hidden name, brought
to disk and renamed. A run that is killed at any instant therefore finds the last complete
checkpoint. ``values.json`` has the digests of the other files and its own. If a disk has damaged a
checkpoint since, the one before, which is kept, is used.

The clients' memories lie in ``clients.slots`` in the same folder, and a checkpoint names their
slots with their checksums. It only writes memories that have changed since the one before. A slot
that either of the two names is not overwritten (``fedsim.federation.slots``).
"""

import logging
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from compressors import State
from compressors.whole.memory import nest, unnest
from fedsim.federation.client_memory import MemorySnapshot, read_snapshot, size
from fedsim.federation.slots import NAME, Slot
from fedsim.ground.columns import Rows, rows_of
from fedsim.ground.errors import reason
from fedsim.ground.files import (
    FILES,
    DamagedFile,
    check_beside,
    read_sealed,
    sync,
    write_bytes,
    write_parquet,
    write_sealed,
    write_text,
)

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

_PREFIX, _GONE_ON = "checkpoint-", ".gone-on"
END = "final"
"""The folder of a finished run's memory, from which the run can be extended."""

_TABLES = "rounds", "clients", "layers"

_SLOTS = "slots"
"""The table of the clients' slots, among a checkpoint's tensors."""

KEPT_BYTES = 4 * 2**20
"""The largest such memory that is kept unasked; ``keep_checkpoint`` keeps any."""


@dataclass(frozen=True)
class Checkpoint:
    """The state from which a run goes on: server, clients, and the rows so far.

    In a deployed run it has no clients, because they keep their memory themselves.
    """

    round: int
    server: State
    values: dict[str, Any]
    clients: Mapping[int, State]
    rounds: Sequence[dict[str, Any]]
    client_rows: Sequence[dict[str, Any]]
    layer_rows: Sequence[dict[str, Any]] = ()

    def copied(self) -> "Checkpoint":
        """The same in memory of its own: what goes on from one does not change the other."""

        def copy(state: State) -> State:
            return {name: x.clone() for name, x in state.items()}

        clients = {client: copy(state) for client, state in self.clients.items()}
        rows = [Rows(rows) for rows in (self.rounds, self.client_rows, self.layer_rows)]
        return Checkpoint(self.round, copy(self.server), deepcopy(self.values), clients, *rows)

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        states = self.clients
        if isinstance(states, MemorySnapshot):
            return size(self.server) + states.bytes
        return size(self.server) + sum(map(size, states.values()))


def save_checkpoint(folder: Path, checkpoint: Checkpoint, before: int) -> None:
    """Writes ``checkpoint`` under ``folder`` and keeps that of the round ``before``.

    All others are removed: older ones, and later ones that were damaged and passed over.
    """
    name = f"{_PREFIX}{checkpoint.round:08d}"
    shutil.rmtree(folder / name, ignore_errors=True)
    _write(folder, checkpoint, name)
    for old in _all(folder):
        if old.name not in (name, f"{_PREFIX}{before:08d}"):
            shutil.rmtree(old)
    if isinstance(checkpoint.clients, MemorySnapshot):
        checkpoint.clients.file.keep(checkpoint.clients.mark)


def save_end(folder: Path, checkpoint: Checkpoint, tables: Mapping[str, "pd.DataFrame"]) -> None:
    """Writes the memory of a finished run; a small one in one file.

    ``tables``: those whose files the folder has already: one that is the checkpoint's is copied.
    """
    if checkpoint.bytes <= KEPT_BYTES:
        checkpoint = replace(checkpoint, clients=dict(checkpoint.clients))
    _write(folder, checkpoint, END, tables)


def has_end(folder: Path, rounds: int) -> bool:
    """Whether the folder holds the run's memory after its last round."""
    return (folder / END).is_dir() or (folder / f"{_PREFIX}{rounds:08d}").is_dir()


def end(folder: Path) -> Checkpoint | None:
    """The memory that a finished run kept in ``final``; None where there is none that is whole.

    Nothing in the folder is changed.
    """
    with suppress(*_DAMAGE):
        return _read(folder / END)
    return None


def go_on_from_end(folder: Path, rounds: int) -> None:
    """Makes a checkpoint of the memory that a finished run kept."""
    if (folder / END).is_dir():
        os.replace(folder / END, folder / f"{_PREFIX}{rounds:08d}")
        sync(folder)


def end_damage(folder: Path, rounds: int) -> str:
    """The damage of the memory that ``has_end`` has found; empty if it is whole."""
    place = folder / END
    try:
        _read(place if place.is_dir() else folder / f"{_PREFIX}{rounds:08d}")
    except _DAMAGE as error:
        return str(error)
    return ""


def forget_end(folder: Path) -> None:
    """Removes the memory that a finished run kept, if there is one."""
    shutil.rmtree(folder / END, ignore_errors=True)
    if not _all(folder):
        (folder / NAME).unlink(missing_ok=True)


def _write(
    folder: Path,
    checkpoint: Checkpoint,
    name: str,
    written: Mapping[str, "pd.DataFrame"] = MappingProxyType({}),
) -> None:
    part = folder / f".{secrets.token_hex(8)}.part"
    part.mkdir()
    try:
        _write_files(part, checkpoint, folder, written)
        os.replace(part, folder / name)
    finally:  # a disk that is full keeps no part of it
        shutil.rmtree(part, ignore_errors=True)
    sync(folder)


def _write_files(
    part: Path, checkpoint: Checkpoint, folder: Path, written: Mapping[str, "pd.DataFrame"]
) -> None:
    """The files of a checkpoint into ``part``; ``written``: tables that ``folder`` has already."""
    tensors = nest("server", checkpoint.server)
    clients = checkpoint.clients
    if isinstance(clients, MemorySnapshot) and clients.file.path == folder / NAME:
        tensors[_SLOTS] = clients.table()
    else:
        for client, state in clients.items():
            tensors |= nest(f"client/{client}", state)
    plain = {name: x.detach().cpu().contiguous().clone() for name, x in tensors.items()}
    try:
        save_file(plain, part / "memory.safetensors")
    except SafetensorError as error:  # which it raises where the disk is full, too
        raise OSError(str(error)) from error
    sync(part / "memory.safetensors")
    tables = checkpoint.rounds, checkpoint.client_rows, checkpoint.layer_rows
    for table, rows in zip(_TABLES, tables, strict=True):
        if not rows and table == "layers":
            continue
        file, frame = f"{table}.parquet", Rows(rows).frame()
        if table in written and frame.equals(written[table]):
            write_bytes(part / file, (folder / file).read_bytes())
        else:
            write_parquet(part / file, frame)
    # safetensors sorts names, and a model's order is part of what its messages mean
    values = {"round": checkpoint.round, "names": list(plain), "server": checkpoint.values}
    write_sealed(part / "values.json", values, sorted(part.iterdir()), indent=None)
    sync(part)


def load_checkpoint(folder: Path, warn: bool = True) -> Checkpoint | None:
    """The last checkpoint under ``folder`` that is whole, or None. Clears what a kill left behind.

    ``warn``: whether a line names each that is damaged, and says where the run goes on.
    """
    hidden = ".*.part"  # as files and checkpoints are named while they are written
    rooms = ("", "payloads/*/", "replies/*/")
    for part in [part for room in rooms for part in folder.glob(f"{room}{hidden}")]:
        shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
    passed_over = []
    newest = None
    places = _all(folder)
    while places and newest is None:
        place = places.pop()
        try:
            newest = _read(place)
        except _DAMAGE as error:
            passed_over.append(f"{place} is damaged and passed over ({error})")
    if passed_over and warn:
        goes_on = f"the run goes on with round {newest.round + 1}" if newest else _AGAIN
        logging.getLogger("fedsim").warning("%s", "; ".join([*passed_over, goes_on]))
    if newest is not None and isinstance(newest.clients, MemorySnapshot):
        newest.clients.older = [slot for place in places for slot in _slots_of(place)]
    return newest


def before(folder: Path, number: int) -> Checkpoint | None:
    """The last whole checkpoint under ``folder`` from which round ``number`` lies ahead, or None.

    Nothing in the folder is changed.
    """
    for place in reversed(_all(folder)):
        with suppress(*_DAMAGE):
            earlier = _read(place)
            if earlier.clients and earlier.round < number:  # else they are at the clients' nodes
                return earlier
    return None


_AGAIN = "there is none before it: the run starts again at round 1"

_DAMAGE = (OSError, ValueError, KeyError, TypeError, SafetensorError)
"""What reading a damaged checkpoint raises."""

_KEYS = {"round", "names", "server", FILES}


def _read(place: Path) -> Checkpoint:
    """The checkpoint in the folder ``place``; raises one of ``_DAMAGE``."""
    import pandas as pd

    file = place / "values.json"
    try:
        values = read_sealed(file)
    except (OSError, ValueError) as error:
        raise DamagedFile(file, reason(error)) from error
    if {*values} != _KEYS:
        raise DamagedFile(file, f"it holds {', '.join(values)}")
    check_beside(file, values)
    stored = load_file(place / "memory.safetensors")
    tensors = {name: stored[name] for name in values["names"]}
    if _SLOTS in tensors:
        clients: Mapping[int, State] = read_snapshot(place.parent / NAME, tensors[_SLOTS])
    else:
        numbers = {int(name.split("/")[1]) for name in tensors if name.startswith("client/")}
        clients = {client: unnest(f"client/{client}", tensors) for client in sorted(numbers)}
    files = [place / f"{table}.parquet" for table in _TABLES]
    rows = [rows_of(pd.read_parquet(file)) for file in files if file.exists() or file != files[-1]]
    server = unnest("server", tensors)
    return Checkpoint(values["round"], server, values["server"], clients, *rows)


def _slots_of(place: Path) -> Iterator[Slot]:
    """The slots that the checkpoint in the folder ``place`` names; none where it cannot be read."""
    with suppress(*_DAMAGE):
        for _, *slot in load_file(place / "memory.safetensors")[_SLOTS].tolist():
            yield Slot(*slot)


def gone_on(folder: Path) -> int:
    """How often the run in ``folder`` has gone on from a checkpoint, this time included.

    It is written down: clients who keep their memory themselves tell by it which message is the
    newer one, of two of the same round.
    """
    file = folder / _GONE_ON
    times = int(file.read_text(encoding="ascii")) + 1 if file.exists() else 1
    write_text(file, str(times))
    return times


def last(folder: Path) -> str | None:
    """The name of the last checkpoint under ``folder``, or None."""
    return max((place.name for place in _all(folder)), default=None)


def remove(folder: Path) -> None:
    """Removes every checkpoint of a finished run, and the slots that no memory is kept in."""
    (folder / _GONE_ON).unlink(missing_ok=True)
    for old in _all(folder):
        shutil.rmtree(old)
    if (folder / NAME).exists() and not any(_slots_of(folder / END)):
        (folder / NAME).unlink()


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*"))

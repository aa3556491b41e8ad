"""A run's whole memory on disk: complete or absent, and never pickled.

A checkpoint is a folder ``checkpoint-<round>`` that is written under a hidden name, brought
to disk and renamed; the checkpoint before is removed afterwards. A run that is killed at any
instant therefore finds the last complete checkpoint.
"""

import json
import os
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.torch import load_file, save_file

from compressors import State
from compressors.whole.memory import inside, nest
from fedsim.files import sync, write_json, write_parquet

_PREFIX = "checkpoint-"
END = "final"
"""The folder of a finished run's memory, from which the run can be extended."""

KEPT_BYTES = 4 * 2**20
"""The largest such memory that is kept unasked; ``keep_checkpoint`` keeps any."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything from which a run goes on: server, clients, and the rows so far."""

    round: int
    server: State
    values: dict[str, Any]
    clients: dict[int, State]
    rounds: list[dict[str, Any]]
    client_rows: list[dict[str, Any]]
    layer_rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        states = [self.server, *self.clients.values()]
        return sum(x.numel() * x.element_size() for state in states for x in state.values())


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes ``checkpoint`` under ``folder`` and removes older ones."""
    _write(folder, checkpoint, f"{_PREFIX}{checkpoint.round:08d}")
    for old in _all(folder)[:-1]:
        shutil.rmtree(old)


def save_end(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes the memory of a finished run."""
    _write(folder, checkpoint, END)


def has_end(folder: Path, rounds: int) -> bool:
    """Whether the folder holds the run's memory after its last round."""
    return (folder / END).is_dir() or (folder / f"{_PREFIX}{rounds:08d}").is_dir()


def go_on_from_end(folder: Path, rounds: int) -> None:
    """Makes a checkpoint of the memory that a finished run kept."""
    if (folder / END).is_dir():
        os.replace(folder / END, folder / f"{_PREFIX}{rounds:08d}")
        sync(folder)


def forget_end(folder: Path) -> None:
    """Removes the memory that a finished run kept, if there is one."""
    shutil.rmtree(folder / END, ignore_errors=True)


def _write(folder: Path, checkpoint: Checkpoint, name: str) -> None:
    part = folder / f".{secrets.token_hex(8)}.part"
    part.mkdir()
    tensors = nest("server", checkpoint.server)
    for client, state in checkpoint.clients.items():
        tensors |= nest(f"client/{client}", state)
    plain = {name: x.detach().cpu().contiguous().clone() for name, x in tensors.items()}
    save_file(plain, part / "memory.safetensors")
    sync(part / "memory.safetensors")
    write_parquet(part / "rounds.parquet", pd.DataFrame(checkpoint.rounds))
    write_parquet(part / "clients.parquet", pd.DataFrame(checkpoint.client_rows))
    if checkpoint.layer_rows:
        write_parquet(part / "layers.parquet", pd.DataFrame(checkpoint.layer_rows))
    # safetensors sorts names, and a model's order is part of what its messages mean
    values = {"round": checkpoint.round, "names": list(plain), "server": checkpoint.values}
    write_json(part / "values.json", values)
    sync(part)
    os.replace(part, folder / name)
    sync(folder)


def load(folder: Path) -> Checkpoint | None:
    """The last complete checkpoint under ``folder``, or None. Clears what a kill left behind."""
    hidden = ".*.part"  # as files and checkpoints are named while they are written
    for part in [*folder.glob(hidden), *folder.glob(f"payloads/*/{hidden}")]:
        shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
    complete = _all(folder)
    if not complete:
        return None
    last = complete[-1]
    values = json.loads((last / "values.json").read_text(encoding="utf-8"))
    stored = load_file(last / "memory.safetensors")
    tensors = {name: stored[name] for name in values["names"]}
    layers = last / "layers.parquet"
    clients = {int(name.split("/")[1]) for name in tensors if name.startswith("client/")}
    return Checkpoint(
        values["round"],
        inside("server", tensors),
        values["server"],
        {client: inside(f"client/{client}", tensors) for client in sorted(clients)},
        pd.read_parquet(last / "rounds.parquet").to_dict("records"),
        pd.read_parquet(last / "clients.parquet").to_dict("records"),
        pd.read_parquet(layers).to_dict("records") if layers.exists() else [],
    )


def last(folder: Path) -> str | None:
    """The name of the last checkpoint under ``folder``, or None."""
    return max((place.name for place in _all(folder)), default=None)


def remove(folder: Path) -> None:
    """Removes every checkpoint of a finished run."""
    for old in _all(folder):
        shutil.rmtree(old)


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*"))

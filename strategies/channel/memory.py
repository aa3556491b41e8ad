"""A client's memory between rounds, at its node: in Flower's context, or in a folder of its own.

A node whose config has ``state-dir`` keeps the memory there, and reads it again after a restart;
any other node keeps it in ``context.state``, which lives as long as the node's process. Both are
written as a client's last act, so a client that fails keeps what it had.
"""

import json
import os
from pathlib import Path
from urllib.parse import quote

from flwr.app import Context

from compressors import State
from strategies.channel.nodes import name_of
from strategies.channel.payload import to_arrays, to_state

STATE_DIR = "state-dir"
"""Key of a node's config: the folder in which its memory outlives the node's process."""


def load(context: Context, key: str) -> State:
    """The memory as last committed under ``key``; empty where there is none."""
    if STATE_DIR in context.node_config:
        return _read(_folder(context, key))
    record = context.state.array_records.get(key)
    return {} if record is None else to_state(record)


def commit(context: Context, key: str, state: State) -> None:
    """Replaces the memory under ``key``.

    Raises ``ValueError``, which names the folder, where ``state-dir`` cannot be written.
    """
    if STATE_DIR not in context.node_config:
        context.state[key] = to_arrays(state)
        return
    folder = _folder(context, key)
    try:
        _write(folder, state)
    except OSError as error:
        given = context.node_config[STATE_DIR]
        raise ValueError(f"state-dir is {given!r}: {error.strerror}: {error.filename}") from error


def _folder(context: Context, key: str) -> Path:
    """One per run and client, so that nodes may share ``state-dir``."""
    run = f"run-{context.run_id}"
    name = quote(f"client-{name_of(context)}", safe="")
    return Path(str(context.node_config[STATE_DIR])) / run / name / key


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("memory-*.safetensors"))


def _read(folder: Path) -> State:
    from safetensors import safe_open  # only nodes with a folder need the package

    files = _files(folder)
    if not files:
        return {}
    with safe_open(files[-1], framework="pt") as file:
        names = json.loads(file.metadata()["names"])
        return {name: file.get_tensor(name) for name in names}


def _write(folder: Path, state: State) -> None:
    """Writes a file with the next number, whole or not at all, and removes those before it."""
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    old = _files(folder)
    number = int(old[-1].stem.removeprefix("memory-")) + 1 if old else 1
    plain = {name: x.detach().cpu().contiguous() for name, x in state.items()}
    part, whole = folder / ".part", folder / f"memory-{number:08d}.safetensors"
    with open(part, "wb") as file:
        file.write(save(plain, {"names": json.dumps(list(plain))}))
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, whole)
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    for before in old:
        before.unlink(missing_ok=True)

"""A client's memory between rounds, at its node: in Flower's context, or in a folder of its own.

A node whose config has ``state-dir`` keeps the memory there, and reads it again after a restart;
any other node keeps it in ``context.state``, which lives as long as the node's process. Both are
written as a client's last act, so a client that fails keeps what it had.

In a folder the memory before is kept beside the last, and a file's name ends with the digest of its
content: one that a disk has damaged is passed over for the one before.
"""

import json
import logging
import os
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

from flwr.app import Context

from compressors import State
from strategies.channel.nodes import name_of
from strategies.channel.payload import to_arrays, to_state

STATE_DIR = "state-dir"
"""Key of a node's config: the folder in which its memory outlives the node's process."""


def load(context: Context, key: str) -> State:
    """The memory as last committed under ``key``; empty where there is none.

    Of a folder it is the last that is whole; a line names each that is damaged.
    """
    if STATE_DIR not in context.node_config:
        record = context.state.array_records.get(key)
        return {} if record is None else to_state(record)
    from safetensors import SafetensorError  # only nodes with a folder need the package

    log, folder = logging.getLogger(__name__), _folder(context, key)
    files = _files(folder)
    for file in reversed(files):
        try:
            return _whole(file)
        except (OSError, ValueError, SafetensorError) as error:
            log.warning("%s is damaged and passed over for the memory before: %s", file, error)
    if files:
        log.warning("%s holds no memory that is whole: the client begins without", folder)
    return {}


def commit(context: Context, key: str, state: State) -> None:
    """Replaces the memory under ``key``.

    Raises ``ValueError``, which names the folder, where ``state-dir`` cannot be written.
    """
    if STATE_DIR not in context.node_config:
        context.state[key] = to_arrays(state)
        return
    try:
        _write(_folder(context, key), state)
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


def _whole(file: Path) -> State:
    """The memory in ``file``; its name has no digest where an older version wrote it."""
    from safetensors import safe_open

    digest = _parts(file)[2:]
    if digest and _digest(file.read_bytes()) != digest[0]:
        raise ValueError("its content is not what was written")
    with safe_open(file, framework="pt") as tensors:
        names = json.loads(tensors.metadata()["names"])
        return {name: tensors.get_tensor(name) for name in names}


def _parts(file: Path) -> list[str]:
    """Of ``memory-NUMBER-DIGEST.safetensors``."""
    return file.stem.split("-")


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _write(folder: Path, state: State) -> None:
    """Writes a file with the next number, whole or not at all; the one before it stays.

    Only the node's user can read them: a residual tells of the data.
    """
    from safetensors.torch import save

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    old = _files(folder)
    number = int(_parts(old[-1])[1]) + 1 if old else 1
    plain = {name: x.detach().cpu().contiguous() for name, x in state.items()}
    content = save(plain, {"names": json.dumps(list(plain))})
    part = folder / ".part"
    part.unlink(missing_ok=True)  # what a kill left behind may be readable by others
    whole = folder / f"memory-{number:08d}-{_digest(content)}.safetensors"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, whole)
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    for before in old[:-1]:
        before.unlink(missing_ok=True)

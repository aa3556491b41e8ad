"""A client's memory between rounds, at its node: in Flower's context, or in a folder of its own.

A node whose config has ``state-dir`` keeps the memory there, and reads it again after a restart;
any other node keeps it in ``context.state``, which lives as long as the node's process. Both are
written as a client's last act, so a client that fails keeps what it had.

In the folder a run goes by the number of its channel, which outlives Flower's runs. The memories
after a client's last three rounds are kept: a server that was killed asks for its last round again,
or for the one before where its last checkpoint is damaged, and the client then begins with what it
held. A file's name has its round and the digest of its content: one that a disk has damaged is
passed over for the one before.
"""

import json
import logging
import os
import shutil
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

from flwr.app import Context

from compressors import State
from strategies.channel.acknowledge import channel_of, is_ahead
from strategies.channel.nodes import name_of
from strategies.channel.payload import ROUND, Settings, to_arrays, to_state

STATE_DIR = "state-dir"
"""Key of a node's config: the folder in which its memory outlives the node's process."""


MEMORY_FILES = 3  # how many memories a folder keeps


def load(context: Context, key: str, settings: Settings) -> State:
    """The memory as last committed under ``key``; empty where there is none.

    From a folder it is the last undamaged memory, without rounds that are unknown to the server
    that has sent these ``settings``. A warning names each damaged file.
    """
    if STATE_DIR not in context.node_config:
        record = context.state.array_records.get(key)
        return {} if record is None else to_state(record)
    from safetensors import SafetensorError  # only nodes with a folder need the package

    log, folder = logging.getLogger(__name__), _folder(context, settings) / key
    damaged = False
    for file in reversed(_files(folder)):
        try:
            memory = _read(file)
        except (OSError, ValueError, SafetensorError) as error:
            log.warning("%s is damaged and passed over for the memory before: %s", file, error)
            damaged = True
            continue
        if not is_ahead(memory, settings):
            return memory
    if damaged:
        log.warning("%s holds no memory that is whole: the client begins without", folder)
    return {}


def commit(context: Context, key: str, settings: Settings, state: State) -> None:
    """Replaces the memory under ``key`` by that after the message with these ``settings``.

    Raises ``ValueError``, which names the folder, where ``state-dir`` cannot be written.
    """
    if STATE_DIR not in context.node_config:
        context.state[key] = to_arrays(state)
        return
    try:
        _write(_folder(context, settings) / key, int(settings[ROUND]), state)
    except OSError as error:
        state_dir = context.node_config[STATE_DIR]
        raise ValueError(
            f"state-dir is {state_dir!r}: {error.strerror}: {error.filename}"
        ) from error


def remove_memory(context: Context, settings: Settings) -> None:
    """Removes from ``state-dir`` what the client kept of the channel, whose run is done."""
    if STATE_DIR in context.node_config:
        folder = _folder(context, settings)
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another client that shares it has not been told yet
            folder.parent.rmdir()


def _folder(context: Context, settings: Settings) -> Path:
    """One per channel and client, so that nodes may share ``state-dir``."""
    name = quote(f"client-{name_of(context)}", safe="")
    return Path(str(context.node_config[STATE_DIR])) / f"channel-{channel_of(settings)}" / name


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("memory-*.safetensors"))


def _read(file: Path) -> State:
    """The memory in ``file``."""
    from safetensors import safe_open

    if _digest(file.read_bytes()) != _parts(file)[2]:
        raise ValueError("its content is not what was written")
    with safe_open(file, framework="pt") as tensors:
        names = json.loads(tensors.metadata()["names"])
        return {name: tensors.get_tensor(name) for name in names}


def _parts(file: Path) -> list[str]:
    """Of ``memory-ROUND-DIGEST.safetensors``."""
    return file.stem.split("-")


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _write(folder: Path, number: int, state: State) -> None:
    """Writes the file of round ``number``, whole or not at all; of those before it some stay.

    Only the node's user can read them: a residual tells of the data.
    """
    from safetensors.torch import save

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    old = _files(folder)
    plain = {name: x.detach().cpu().contiguous() for name, x in state.items()}
    content = save(plain, {"names": json.dumps(list(plain))})
    part = folder / ".part"
    part.unlink(missing_ok=True)  # what a kill left behind may be readable by others
    target = folder / f"memory-{number:08d}-{_digest(content)}.safetensors"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, target)
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    before = [file for file in old if int(_parts(file)[1]) < number]
    for other in {*old} - {*before[1 - MEMORY_FILES :], target}:
        other.unlink(missing_ok=True)

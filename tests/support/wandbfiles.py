"""What Weights & Biases wrote offline, read back by its own definition of a record."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BLOCK = 32768


def records(file: Path) -> Iterator[Any]:
    """The records of a `run-ID.wandb` file: LevelDB's log behind a header of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    data = file.read_bytes()
    assert data[:4] == b":W&B"
    at, begun = 7, b""
    while at + 7 <= len(data):
        if (left := _BLOCK - at % _BLOCK) < 7:  # a block is filled up
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        whole, first, last = 1, 2, 4
        begun = (b"" if kind in (whole, first) else begun) + data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (whole, last):
            record = Record()
            record.ParseFromString(begun)
            yield record


class OfflineRun:
    """The run in a folder's ``wandb``: its settings, the columns at each step, its summary."""

    def __init__(self, folder: Path) -> None:
        import wandb

        wandb.teardown()  # all is on disk
        (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
        self.run: Any = None
        self.config: dict[str, Any] = {}
        self.history: list[tuple[int, dict[str, Any]]] = []
        self.summary: dict[str, Any] = {}
        self.exit: int | None = None
        for record in records(file):
            if record.HasField("run"):
                self.run = record.run
                self.config |= {u.key: json.loads(u.value_json) for u in record.run.config.update}
            elif record.HasField("history"):
                row = _values(record.history.item)
                self.history.append((row["_step"], row))
            elif record.HasField("summary"):
                self.summary |= _values(record.summary.update)
            elif record.HasField("exit"):
                self.exit = record.exit.exit_code


def _values(items: Any) -> dict[str, Any]:
    return {i.key or ".".join(i.nested_key): json.loads(i.value_json) for i in items}

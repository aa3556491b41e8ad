"""A folder's tables against each other and against its messages.

Rounds are sums over clients, the summary is one over rounds, and stored messages are those of rows.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.federation import ledger
from fedsim.federation.ledger import DIGEST_DOWN, DIGEST_UP
from fedsim.ground.files import digest_of
from fedsim.ground.strangers import read_file
from fedsim.results.schema import TRAINED
from fedsim.runs.totals import totals
from fedsim.runs.verify.recordedrun import RecordedRun
from fedsim.runs.verify.tables import row_words
from fedsim.runs.verify.verdict import digest_difference

_SHARD = re.compile(r"-shard-(\d+)-step-")
_DIRECTIONS = ("up", DIGEST_UP, "payload"), ("down", DIGEST_DOWN, "payload sent to it")


@dataclass(frozen=True)
class StoredMessage:
    """The files of one direction of a row."""

    files: tuple[Path, ...]  # of the payload, one or one per part of the model
    buffers: tuple[Path, ...]  # if there are any

    @property
    def payload(self) -> bytes:
        """The bytes of the update or the model."""
        return b"".join(map(read_file, self.files))

    @property
    def side_payload(self) -> bytes:
        """The buffers' payload; empty where there is none."""
        return b"".join(map(read_file, self.buffers))


def of_row(folder: Path, row: Mapping[str, Any], direction: str) -> StoredMessage:
    """The files of what a row's client sent (``up``) or was sent (``down``)."""
    number, client = int(row.get("message", row["round"])), int(row["client"])
    place = folder / "payloads" / f"round-{number:05d}"
    files, buffers = (
        tuple(
            file
            for file in sorted(place.glob(f"client-{client:03d}-{pattern}"))
            if not ((part := _SHARD.search(file.name)) and int(part[1]) == client)
        )
        for pattern in (f"*{direction}*.bin", f"{direction}*.buffers")
    )
    payload = tuple(f for f in files if re.search(rf"-{direction}[-.]", f.name))
    return StoredMessage(payload, buffers)


def message_differences(recorded: RecordedRun) -> Iterator[str]:
    """Where a stored message is missing, is not that of its row, or belongs to none."""
    folder, used = recorded.folder, set[Path]()
    for row in recorded.clients.to_dict("records"):
        for direction, column, what in _DIRECTIONS:
            stored, place = of_row(folder, row, direction), f"{row_words(row)}: {what}"
            used |= {*stored.files, *stored.buffers}
            if not stored.files and row[column]:
                yield f"{place} is missing: it is kept in no file"
            elif stored.files:
                digest = digest_of(stored.payload + stored.side_payload)
                if digest != row[column]:
                    yield digest_difference(place, row[column], digest)
    present = {file for file in (folder / "payloads").rglob("*") if file.is_file()}
    for file in sorted(present - used):  # what a part's own worker pushed to it did not travel
        if not _SHARD.search(file.name):
            yield f"{file.relative_to(folder)} belongs to no row of clients.parquet"


_SUMS = ("up_sent", "failures", "returned", "lost")
"""Columns of both tables that are sums, in addition to those of bits."""


def sum_differences(recorded: RecordedRun) -> Iterator[str]:
    """Where a round's columns are not the sums over its clients' rows, or its digest not theirs."""
    rounds, clients = recorded.rounds.set_index("round"), recorded.clients
    both = [
        name
        for name in rounds.columns
        if name in clients.columns and (name.endswith("_bits") or name in _SUMS)
    ]
    totals = clients.groupby("round")[both].sum()
    if more := sorted({*totals.index} - {*rounds.index}):
        yield f"clients.parquet has round {more[0]}, which rounds.parquet lacks"
        return
    totals = totals.reindex(rounds.index, fill_value=0)  # a round may be nobody's
    for direction in ("up", "down"):  # a sampler's requests are in no client's row
        if f"{direction}_sampler_bits" in rounds:
            totals[f"{direction}_wire_bits"] += rounds[f"{direction}_sampler_bits"]
    wrong = [
        (number, name)
        for name in both
        for number in rounds.index[rounds[name].notna() & (rounds[name] != totals[name])]
    ]
    for number, name in sorted(wrong):
        value, total = rounds.loc[number, name], totals.loc[number, name]
        yield f"round {number}: {name} is {value:g}, and {total:g} over its clients"
    for number, expected in rounds[ledger.DIGEST_PAYLOADS].items():
        digest = ledger.digest_of_rows(recorded.clients_in(int(str(number))))
        if digest != expected:
            place = f"round {number}: the digest of its clients' rows"
            yield digest_difference(place, expected, digest)


def summary_differences(recorded: RecordedRun) -> Iterator[str]:
    """The differences between the summary and its tables."""
    stored, rounds = recorded.summary, recorded.rounds
    trained = stored.get(TRAINED) or {}
    moved = bool(trained.get("controller"))
    epochs = any(trained.get(name) for name in ("local_epochs", "local_seconds"))
    computed = totals(rounds, recorded.clients, stored, None, moved, epochs)
    for name, value in computed.items():
        if name not in stored or stored[name] == value:
            continue
        number = isinstance(value, float)
        if not (number and np.isclose(stored[name], value, 1e-12, 0, equal_nan=True)):
            yield f"summary.json: {name} is {stored[name]}, and {value} by the tables"

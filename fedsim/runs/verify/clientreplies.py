"""Replies made of a run's tables, where its folder keeps no more than the payloads of used ones.

Versions up to 0.1.0 kept no more. A used reply is its payload, the samples and the loss of its row.
Of another one the server reads no more than its length, which is in the row where it came. One that
never came is still on its way when the run ends, however long it is.
"""

import math
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Error, MetricRecord, RecordDict

from fedsim.federation.failures import DROPPED, LATE
from fedsim.federation.ledger import DIGEST_DOWN, DIGEST_UP
from fedsim.runs.replies import Reply, ReplyStore
from fedsim.runs.verify.messages import of_row
from fedsim.runs.verify.recordedrun import RecordedRun
from fedsim.settings.config import RunConfig
from strategies.channel.payload import BUFFERS, CHUNKED, METRICS, ROUND, SAMPLES, STYPE, put
from strategies.channel.replies import ABSENT, NO_REPLY

_LOOKS, _FAR = 1000, 100


class Replies:
    """Every reply of a run: as its folder keeps it, else made of its tables.

    Args:
        recorded: with digests and stored messages.
        config: the run.

    Attributes:
        complete: whether the folder keeps all of them.
        some_absent: whether a client had no node in some round.
    """

    def __init__(self, recorded: RecordedRun, config: RunConfig) -> None:
        self.recorded, self.config, self._stored = recorded, config, ReplyStore(recorded.folder)
        rows: list[dict[str, Any]] = recorded.clients.to_dict("records")
        self._rows = {(int(row["client"]), number_in(row)): row for row in rows}
        self.some_absent = ABSENT in {*recorded.clients["failure_reasons"]}
        self._later: dict[int, list[dict[str, Any]]] = {}
        for row in rows:
            self._later.setdefault(int(row["client"]), []).append(row)
        answered = [
            key
            for key, row in self._rows.items()
            if row[DIGEST_DOWN] and row["failure_reasons"] not in (NO_REPLY, DROPPED["before"])
        ]
        self.complete = all(self._stored.has(*key) for key in answered)

    def of(self, client: int, number: int) -> list[Reply]:
        """The replies of a client to its message of this number; none where it sent none."""
        stored = self._stored.of(client, number)
        return stored if stored or self.complete else self._from_tables(client, number)

    def absent(self, number: int) -> set[int]:
        """Clients that had no node when a round would have asked them."""
        rows = self.recorded.clients_in(number)
        return {int(row["client"]) for row in rows if row["failure_reasons"] == ABSENT}

    def asked_again(self, client: int, number: int) -> int | None:
        """The next round in which a client is sent a message; None: there is none."""
        later = (number_in(row) for row in self._later[client] if row[DIGEST_DOWN])
        return next((other for other in later if other > number), None)

    def _from_tables(self, client: int, number: int) -> list[Reply]:
        row = self._rows.get((client, number))
        if row is None:  # under way when the run ended
            return [Reply(self._endless(client))]
        reason, bits = row["failure_reasons"], int(row["failed_up_bits"])
        if reason == NO_REPLY:
            return []
        if row[DIGEST_UP] and row[DIGEST_DOWN]:
            return [Reply(self._used(row, number))]
        if reason == LATE:
            return [Reply(self._late(client, number))]
        if bits or reason == DROPPED["after"]:
            return [Reply(_content(bytes(bits // 8), number))]
        return [Reply(Error(0, reason))]

    def _late(self, client: int, number: int) -> RecordDict:
        """A reply that came in a later round, if it did."""
        for row in self._later[client]:
            if number_in(row) > number and row[DIGEST_UP] and not row[DIGEST_DOWN]:
                return self._used(row, number)
            if number_in(row) > number and row["failed_up_bits"]:
                return _content(bytes(int(row["failed_up_bits"]) // 8), number)
        return self._endless(client)

    def _used(self, row: dict[str, Any], number: int) -> RecordDict:
        up = of_row(self.recorded.folder, row, "up")
        content = _content(up.payload, number, **({BUFFERS: up.side_payload} if up.buffers else {}))
        samples, loss = int(row["samples"]), float(row["train_loss"])
        content[METRICS] = MetricRecord({SAMPLES: samples, "train-loss": loss})
        return content

    def _endless(self, client: int) -> RecordDict:
        """An update that is still on its way when the run ends: far more than its link carries."""
        network, plan = self.config.plan.network, self.config.plan
        bits = 0.0
        if network is not None:
            links = network.links(plan.clients, self.config.seed, 0.0)
            times = np.linspace(0, self.recorded.rounds["sim_end_seconds"].max(), _LOOKS)
            rate = max(links.up[client].at(float(time)) for time in times)
            bits = _FAR * float(times[-1]) * min(rate, links.server_up)
        record = ArrayRecord()
        record["payload"] = _Bytes(int(bits) // 8 if math.isfinite(bits) else 0)
        return RecordDict({CHUNKED: record})


def number_in(row: dict[str, Any]) -> int:
    """The number of the message that a row is of, among those to its client."""
    return int(row.get("message", row["round"]))


def _content(payload: bytes, number: int, **side_payloads: bytes) -> RecordDict:
    content = RecordDict()
    put(content, payload, **{ROUND: number}, **side_payloads)
    return content


class _Bytes(Array):
    """An array of so many bytes that nobody asks for."""

    def __init__(self, count: int) -> None:
        self.dtype, self.shape, self.stype, self._count = "uint8", (count,), STYPE, count

    @property
    def data(self) -> Any:  # type: ignore[override]
        """They have a length."""
        return range(self._count)

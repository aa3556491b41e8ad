"""A run's model once more, round by round, from the initial one and the stored messages alone.

No client trains and no clock runs: who sent what, and from which model, stands in the tables. The
server's strategy takes the stored uploads in as it did, and must come to the recorded model.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedsim.engines import compat
from fedsim.federation.digests import DOWN, UP, of_model
from fedsim.federation.server import Server
from fedsim.ground.files import digest_of
from fedsim.runs.verify.recorded import Recorded
from fedsim.runs.verify.stored import Stored, named, of_row
from fedsim.runs.verify.verdict import differ
from fedsim.settings.config import RunConfig
from strategies import Asynchronous, DelayedDSGD, Downlink, RoundTraffic, ShardedStrategy
from strategies.channel.asynchronous_end import Asked, AsynchronousEnd
from strategies.channel.beside import BUFFERS
from strategies.channel.buffers import ASKED
from strategies.channel.payload import METRICS, ROUND, SAMPLES, put

Rows = list[dict[str, Any]]


def why_not(config: RunConfig, server: Server) -> str:
    """Why a model cannot be made again from its messages; empty where it can."""
    if config.controller is not None:
        return "the controller's orders, by which messages are read, are not kept"
    if isinstance(server.strategy, ShardedStrategy):
        return "parts of the model move while a round is written"
    if not isinstance(server.strategy, DelayedDSGD | Asynchronous):
        return f"strategy {config.plan.strategy} is Flower's own, which is handed whole models"
    return ""


def rebuilt(recorded: Recorded, server: Server) -> Iterator[str]:
    """Where the model that the messages make is not the recorded one; round by round.

    Args:
        recorded: with digests and stored messages.
        server: of the same run, before its first round.
    """
    compat.identify()  # for the messages of a process that has made no run
    server.strategy.open(server.initial)
    server.strategy.required = 0  # a round may have had fewer, and the run went on
    server.strategy.sent({}, cast(Grid, object()))  # nothing goes over it
    again = _Events(recorded, server) if server.plan.algorithm.clock == "server" else None
    for number, digest in recorded.digests.items():
        rows: Rows = recorded.clients_in(number)
        if again is not None:
            yield from again.row(rows)
        else:
            yield from _round(recorded, server, number, rows)
        found = of_model(server.model)
        if found != digest:
            yield differ(f"round {number}: model", digest, found)
            return  # and so does every one after it


def _round(recorded: Recorded, server: Server, number: int, rows: Rows) -> Iterator[str]:
    """One round of a server that waits: its messages down, as it made them, and the step."""
    strategy, channel = server.strategy, server.channel
    assert isinstance(strategy, DelayedDSGD)
    downs = {int(row["client"]): row for row in rows if row[DOWN]}
    for client, row in downs.items():
        # The server believes that the client holds what its stored message is added to.
        stored = of_row(recorded.folder, row, "down")
        channel.base.pop(client, None)
        if stored.kind == "updates":
            missed, payload = channel.missed, stored.payload
            for back in range(channel.version + 1):
                updates = missed.last(back) if missed else None
                if payload == (updates.payload if updates else b""):
                    channel.base[client] = channel.version - back
                    break
        elif stored.kind != "model":
            channel.base[client] = channel.version - 1
    channel.begin(number, downs)
    for client, row in downs.items():
        channel.iterations[client] = server.plan.local_iterations(number)
        down = channel.traffic.downlinks[client]
        found = digest_of(down.payload + down.beside.get(BUFFERS, b""))
        if found != row[DOWN]:
            yield differ(f"{named(row)}: what the server would send it", row[DOWN], found)
    came = [row for row in rows if row[UP]]
    strategy.advance([reply(of_row(recorded.folder, row, "up"), row, number) for row in came])
    for row in came:
        if why := channel.traffic.failures.get(int(row["client"])):
            yield f"{named(row)}: payload cannot be read: {why}"


class _Events:
    """A server that does not wait: updates in the order in which they came.

    Each was made from the model that was as many steps old as its row says.
    """

    def __init__(self, recorded: Recorded, server: Server) -> None:
        self.recorded, self.strategy = recorded, server.strategy
        assert isinstance(self.strategy, Asynchronous)
        self.oldest = int(recorded.clients["staleness"].max())
        self.models: dict[int, Mapping[str, Tensor]] = {0: server.channel.weights}

    def row(self, rows: Rows) -> Iterator[str]:
        """The updates of one round; yields those that cannot be read."""
        strategy, channel = self.strategy, self.strategy.channel
        assert isinstance(strategy, Asynchronous) and isinstance(channel, AsynchronousEnd)
        for row in (row for row in rows if row[UP]):
            client, number = int(row["client"]), int(row["message"])
            version = channel.version - int(row["staleness"])
            stored = of_row(self.recorded.folder, row, "up")
            down = Downlink(b"", "model", {}, settings={ASKED: True} if stored.buffers else {})
            traffic = RoundTraffic(number, {client: down})
            channel.asked[client] = Asked(traffic, version, self.models[version])
            came = reply(stored, row, number)
            arrival = strategy.arrive(client, came)
            if arrival.uplink is None:
                yield f"{named(row)}: payload cannot be read: {traffic.failures[client]}"
                return
            self.models[channel.version] = channel.weights
            self.models.pop(channel.version - self.oldest - 1, None)


def reply(up: Stored, row: Mapping[str, Any], number: int) -> Message:
    """A client's reply, as far as the server reads it: its update, and its number of samples.

    The client is its own node, for nobody has registered.
    """
    content = RecordDict({METRICS: MetricRecord({SAMPLES: int(row["samples"])})})
    buffers = {BUFFERS: up.beside} if up.buffers else {}
    put(content, up.payload, **{ROUND: number}, **buffers)
    asked = Message(RecordDict(), dst_node_id=int(row["client"]), message_type="train")
    return Message(content, reply_to=asked)

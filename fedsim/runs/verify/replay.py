"""A run once more over its stored messages: the server's own loop, and no client trains.

Every message that the server sends, every row of the two tables and the model of every round must
be what they were. Columns of measured seconds are left out.
"""

from collections.abc import Iterator

from fedsim.federation.ledger import DIGEST_MODEL
from fedsim.federation.server import Server
from fedsim.ground.errors import RunFailed, UsageError
from fedsim.runs.recorder import RunRecords
from fedsim.runs.verify.rerun import client_differences, elsewhere, frame_differences
from fedsim.runs.verify.storedgrid import Replies, StoredGrid
from fedsim.runs.verify.tables import TOLERANCE, Shares
from fedsim.runs.verify.verdict import digest_difference
from fedsim.settings.config import RunConfig

LACKS = "an earlier version kept the payloads of used replies alone"

CODING = "simulated seconds are not compared: they hold the server's measured coding"
"""The remark on a network with ``coding=measured``."""


def replay_differences(replies: Replies, server: Server, records: RunRecords) -> Iterator[str]:
    """The differences between a replay and the records, the first round first.

    ``server``: of the same run, before its first round; ``records``: its recorder.
    """
    recorded, grid = replies.recorded, StoredGrid(server.plan.clients, replies)
    server.open(grid)
    for grid.round, digest in recorded.digests.items():
        number, before = grid.round, len(records.client_rows)
        if server.done:
            yield f"the run is over after round {number - 1}, and round {number} is recorded"
            return
        try:
            row = server.step()
        except (RunFailed, UsageError) as error:
            yield str(error)
            return
        repeated = records.client_rows[before:]
        failures = [*client_differences(number, recorded.clients_in(number), repeated)]
        if row[DIGEST_MODEL] != digest:
            failures.append(digest_difference(f"round {number}: model", digest, row[DIGEST_MODEL]))
        yield from failures
        if failures:
            return  # what follows is of another run
    if replies.complete:
        elsewhere = TOLERANCE if scored_elsewhere(replies) else 0.0
        far = None if server.own_models else elsewhere  # what clients keep is in no message
        shares, tables = Shares(far, clocked_coding(replies.config)), records.frames()
        stored = {name: recorded.table(name) for name in tables}
        yield from frame_differences(stored, tables, shares, "in the replay")


def replay_obstacle(replies: Replies) -> str:
    """Why a run cannot be replayed; empty where it can be.

    ``replies``: what is known of its clients'.
    """
    config, network = replies.config, replies.config.plan.network
    if replies.complete:
        return ""
    if config.controller is not None:
        return f"{LACKS}, and the controller was told of more"
    if config.plan.algorithm.clock != "rounds" or not replies.all_used:
        return f"{LACKS}, and the server read some of the others"
    if network is not None and network.framing:
        return f"{LACKS}, and the clock counts whole messages (framing=on)"
    return ""


def left_out(replies: Replies, own_models: bool) -> Iterator[str]:
    """What a replay does not compare, except measured seconds, and why; as ``replay_obstacle``.

    ``own_models``: whether clients have models of their own, by which a run is scored.
    """
    if not replies.complete:
        yield f"rows are not compared with the replay: {LACKS}"
        return
    if clocked_coding(replies.config):
        yield CODING
    if own_models:
        yield "scores are not compared with the replay: what clients keep is in no message"
    elif where := scored_elsewhere(replies):
        yield f"scores are compared with the replay within {TOLERANCE:.0%}: {where}"


def clocked_coding(config: RunConfig) -> bool:
    """Whether the clock counts the seconds that coding takes on this machine."""
    network = config.plan.network
    return network is not None and network.coding > 0


def scored_elsewhere(replies: Replies) -> str:
    """In what the machine or device that scored the run's models is another; empty: in nothing."""
    device = replies.config.machine.device
    devices = f"device {device} there, cpu here" if device != "cpu" else ""
    return ", ".join(filter(None, [elsewhere(replies.recorded.folder), devices]))

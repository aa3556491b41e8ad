"""A run once more over its stored messages: the server's own loop, and no client trains.

Every message that the server sends, every row of the two tables and the model of every round must
be what they were. Columns of measured seconds are left out.
"""

from collections.abc import Iterator

from fedsim.federation.digests import MODEL
from fedsim.federation.server import Server
from fedsim.ground.errors import RunFailed, UsageError
from fedsim.runs.recorder import RunRecords
from fedsim.runs.verify.clientreplies import Replies
from fedsim.runs.verify.limits import clocked_coding, scored_elsewhere
from fedsim.runs.verify.messages import row_words
from fedsim.runs.verify.rerun import client_differences
from fedsim.runs.verify.storedgrid import StoredGrid
from fedsim.runs.verify.tables import (
    TOLERANCE,
    Shares,
    layer_words,
    round_words,
    row_differences,
    shape_differences,
)
from fedsim.runs.verify.verdict import digest_difference


def replay_differences(replies: Replies, server: Server, records: RunRecords) -> Iterator[str]:
    """The differences between a replay and the records, the first round first.

    Args:
        replies: of a run with digests and stored messages.
        server: of the same run, before its first round.
        records: the server's recorder.
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
        if row[MODEL] != digest:
            failures.append(digest_difference(f"round {number}: model", digest, row[MODEL]))
        yield from failures
        if failures:
            return  # what follows is of another run
    if replies.complete:
        tables = records.frames()
        elsewhere = TOLERANCE if scored_elsewhere(replies) else 0.0
        far = None if server.own_models else elsewhere  # what clients keep is in no message
        shares = Shares(far, clocked_coding(replies.config))
        words = {"rounds": round_words, "clients": row_words, "layers": layer_words}
        for name, table in tables.items():
            before = recorded.table(name)
            wrong = [*shape_differences(f"{name}.parquet", before, table, "in the replay")]
            yield from wrong or row_differences(before, table, shares, words[name])

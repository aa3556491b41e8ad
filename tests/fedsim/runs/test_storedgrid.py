"""The grid of stored messages: which reply answers which message."""

from typing import Any

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict

from fedsim.runs.replies import Reply
from fedsim.runs.verify.storedgrid import StoredGrid
from strategies.channel.payload import CLIENT, KEY, ROUND


class Three:
    """The replies of a client that was sent a message three times."""

    some_absent = False

    def of(self, client: int, number: int) -> list[Reply]:
        assert (client, number) == (1, 4)
        return [Reply(RecordDict({"tries": MetricRecord({"try": n})})) for n in range(3)]


def test_a_message_that_is_sent_again_has_the_next_reply() -> None:
    replies: Any = Three()
    grid, tries = StoredGrid(2, replies), []
    for _ in range(3):
        content = RecordDict({KEY: ConfigRecord({CLIENT: 1, ROUND: 4})})
        (reply,) = grid.send_and_receive([Message(content, 2, "train")])
        tries.append(reply.content["tries"]["try"])
    assert tries == [0, 1, 2]

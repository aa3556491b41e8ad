"""A grid that holds a run's stored messages: it answers every message as the client did then."""

from collections import Counter
from collections.abc import Iterable, Iterator

from flwr.app import Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode

from fedsim.engines import compat
from fedsim.engines.local import NumberedGrid
from fedsim.federation.rounds import recipient_of
from fedsim.runs.replies import Moment, Reply, number_of
from fedsim.runs.verify.clientreplies import Replies
from strategies.channel.nodes import PARTITION_ID, QUERY


class StoredGrid(NumberedGrid):
    """A grid on which nobody trains.

    Args:
        clients: how many there are: client i is at node i + 1.
        replies: what they answered.

    Attributes:
        round: the number of the server's round.
    """

    def __init__(self, clients: int, replies: Replies) -> None:
        super().__init__(clients)
        self.round, self.numbered = 1, None if replies.some_absent else self._ids
        self._replies, self._moment = replies, Moment()
        self._counts: Counter[tuple[int, int]] = Counter()
        self._open: dict[str, tuple[Message, Reply | None]] = {}  # no reply in their rounds

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterator[Message]:
        """The replies that came in their round, in the order of the messages."""
        messages = list(messages)
        for message in messages:  # all of them, before the first reply is there
            compat.name(message, f"message-{next(self._count)}")
        if messages and messages[0].metadata.message_type == QUERY:
            yield from map(_who, messages)
            return
        self._moment.sent(messages)
        for message in messages:
            key = recipient_of(message), number_of(message)
            replies = self._replies.of(*key)[self._counts[key] :]
            self._counts[key] += 1
            if replies and replies[0].pulled_at is None:
                yield _reply(replies[0].content, message)
            else:
                self._open[message.metadata.message_id] = message, replies[0] if replies else None

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies that came after their round by the machine's clock, when they came then.

        A client that is asked again and has not answered was started anew: it answers no more.
        """
        moment, arrivals = self._moment.looked(), list[Message]()
        for key in message_ids:
            message, reply = self._open[key]
            if reply is not None and reply.pulled_at is not None and reply.pulled_at <= moment:
                arrivals.append(_reply(reply.content, message))
            elif reply is None:
                again = self._replies.asked_again(recipient_of(message), number_of(message))
                if again is not None and again <= self.round:
                    arrivals.append(_reply(Error(ErrorCode.NODE_UNAVAILABLE), message))
        for answer in arrivals:
            del self._open[answer.metadata.reply_to_message_id]
        return arrivals

    def get_node_ids(self) -> Iterable[int]:
        """A node per client that is there."""
        absent = self._replies.absent(self.round)
        return [node for node in self._ids if node - 1 not in absent]


def _who(message: Message) -> Message:
    number = message.metadata.dst_node_id - 1
    content = RecordDict({"partition": MetricRecord({PARTITION_ID: number})})
    return Message(content, reply_to=message)


def _reply(content: RecordDict | Error, message: Message) -> Message:
    """A reply as the client made it; Flower has a signature for each of the two."""
    if isinstance(content, Error):
        return Message(content, reply_to=message)
    return Message(content, reply_to=message)

"""A run's stored replies, and a grid that answers every message with the reply of then.

Versions up to 0.1.0 kept the payloads of used replies alone. Such a reply is its payload, the
samples and the loss of its row.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from flwr.app import Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode

from fedsim.engines import compat
from fedsim.engines.local import NumberedGrid
from fedsim.federation.ledger import DIGEST_DOWN, DIGEST_UP
from fedsim.federation.rounds import recipient_of
from fedsim.ground.records import DROPPED
from fedsim.runs.replies import Moment, Reply, ReplyStore, number_of
from fedsim.runs.verify.messages import of_row
from fedsim.runs.verify.recordedrun import RecordedRun
from fedsim.settings.config import RunConfig
from strategies.channel.nodes import PARTITION_ID, QUERY
from strategies.channel.payload import BUFFERS, METRICS, ROUND, SAMPLES, put
from strategies.channel.replies import ABSENT, NO_REPLY


class Replies:
    """Every reply of a run with stored messages.

    Attributes:
        complete: whether the folder keeps all of them.
        all_used: whether every message had a reply that was used in its round.
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
        self.all_used = all(row[DIGEST_DOWN] and row[DIGEST_UP] for row in rows)

    def of(self, client: int, number: int) -> list[Reply]:
        """The replies of a client to its message of this number; none where it sent none."""
        stored = self._stored.of(client, number)
        return stored if stored or self.complete else [self._of_row(self._rows[client, number])]

    def _of_row(self, row: dict[str, Any]) -> Reply:
        up, content = of_row(self.recorded.folder, row, "up"), RecordDict()
        buffers = {BUFFERS: up.side_payload} if up.buffers else {}
        put(content, up.payload, **{ROUND: number_in(row)}, **buffers)
        samples, loss = int(row["samples"]), float(row["train_loss"])
        content[METRICS] = MetricRecord({SAMPLES: samples, "train-loss": loss})
        return Reply(content)

    def absent(self, number: int) -> set[int]:
        """Clients that had no node when a round would have asked them."""
        rows = self.recorded.clients_in(number)
        return {int(row["client"]) for row in rows if row["failure_reasons"] == ABSENT}

    def asked_again(self, client: int, number: int) -> int | None:
        """The next round in which a client is sent a message; None: there is none."""
        later = (number_in(row) for row in self._later[client] if row[DIGEST_DOWN])
        return next((other for other in later if other > number), None)


def number_in(row: dict[str, Any]) -> int:
    """The number of the message that a row is of, among those to its client."""
    return int(row.get("message", row["round"]))


class StoredGrid(NumberedGrid):
    """A grid on which nobody trains: client i, at node i + 1, answers by ``replies``.

    ``round``: the number of the server's round.
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

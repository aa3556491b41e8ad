"""The messages of a round by client, and policies for updates that come after their round."""

from flwr.app import Message
from flwr.serverapp import Grid

from strategies.channel.replies import answered_round
from strategies.channel.server_end import Late, ServerEnd


def hold(end: ServerEnd, client: int, reply: Message, in_round: bool) -> bool:
    """The client takes the update back into its residual and sends it with its next one."""
    end.pass_over(client, reply, lost=_read(end, client, reply) and end.loses(client))
    return True


def drop(end: ServerEnd, client: int, reply: Message, in_round: bool) -> bool:
    """The update is lost, and counted.

    Its client hears that the server is done with it, as of one that was applied, and so takes
    nothing back.
    """
    last = _read(end, client, reply)
    if last:
        end.applied[client] = end.sent_last[client][0]
    end.pass_over(client, reply, lost=last)
    return True


def count(end: ServerEnd, client: int, reply: Message, in_round: bool) -> bool:
    """The round in which the update comes applies it."""
    if in_round:
        end.take(client, reply, late=True)
    return in_round


LATE: dict[str, Late] = {"hold": hold, "drop": drop, "count": count}
"""By what users type."""


def _read(end: ServerEnd, client: int, reply: Message) -> bool:
    """Whether a reply answers the client's last message, which the client has then read.

    A client that was asked again has heard that the update was not used.
    """
    round_number, (last, version) = answered_round(reply), end.sent_last.get(client, (0, 0))
    if round_number is None or round_number != last:
        return False
    end.base[client] = version
    return True


class Mailbox:
    """The messages of a round, and those of earlier rounds that have no reply yet.

    Attributes:
        late: the policy for replies of earlier rounds.
        messages: client -> its message of this round.
        unanswered: id of an earlier message -> its client and its node.
        undecided: clients, each with a reply of an earlier round that is not decided about yet.
    """

    def __init__(self, late: Late) -> None:
        self.late, self.messages = late, dict[int, Message]()
        self._clients: dict[str, int] = {}  # id of a message of this round -> client
        self._answered: set[str] = set()
        self.unanswered: dict[str, tuple[int, int]] = {}
        self.undecided: list[tuple[int, Message]] = []

    def send(self, messages: dict[int, Message]) -> list[Message]:
        """Notes the messages that leave now; those before them that have no reply stay open."""
        self._end()
        self.messages = messages
        return list(messages.values())

    def _end(self) -> None:
        """Nothing more is waited for: messages without a reply are of an earlier round now."""
        if not self._clients:  # no reply has come
            self._clients = {m.metadata.message_id: c for c, m in self.messages.items()}
        for name in [name for name in self._clients if name not in self._answered]:
            client = self._clients[name]
            self.unanswered[name] = client, self.messages[client].metadata.dst_node_id
        self.messages, self._clients, self._answered = {}, {}, set()

    def client_of(self, reply: Message) -> int | None:
        """The client whose message of this round it answers; None if it answers no such message.

        The reply for a node that died comes from another node, so the client follows from the
        message that it answers.
        """
        if not self._clients:  # a grid gives messages their ids when it sends them
            self._clients = {m.metadata.message_id: c for c, m in self.messages.items()}
        message_id = reply.metadata.reply_to_message_id
        self._answered.add(message_id)
        return self._clients.get(message_id)

    def hear(self, grid: Grid, end: ServerEnd, in_round: bool) -> dict[int, Message]:
        """Takes in what has come for messages of earlier rounds, once it is decided about.

        A client whose late reply is an error is not at work any more. ``in_round``: whether a round
        has its replies and has not moved the model yet. Returns the replies by client.
        """
        self._end()
        for reply in grid.pull_messages(list(self.unanswered)) if self.unanswered else ():
            client, _ = self.unanswered.pop(reply.metadata.reply_to_message_id, (None, 0))
            if client is not None and reply.has_content():
                self.undecided.append((client, reply))
        waiting, self.undecided, decided = self.undecided, [], dict[int, Message]()
        for client, reply in waiting:
            if self.late(end, client, reply, in_round):
                decided[client] = reply
            else:
                self.undecided.append((client, reply))
        return decided

    def expect(self, client: int, message: Message) -> None:
        """A message of a round before a checkpoint, whose reply is to come."""
        self.unanswered[message.metadata.message_id] = client, message.metadata.dst_node_id

"""Which clients are still at work on an earlier message, and are not asked again."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from flwr.app import Error, Message, RecordDict
from flwr.app.message.message import make_message
from flwr.app.metadata import Metadata

from strategies.channel.mailbox import Mailbox

OLD, NEW = 5, 6  # nodes of client 0, before and after it came back


@dataclass
class Decides:
    """A policy for late replies that decides when it is told to."""

    now: bool = True

    def __call__(self, *given: Any) -> bool:
        """Whether it decides."""
        return self.now


@dataclass
class Answers:
    """A grid that has some replies, once."""

    replies: list[Message] = field(default_factory=list)

    def pull_messages(self, ids: Iterable[str]) -> list[Message]:
        """Those for the messages."""
        asked, came = {*ids}, self.replies
        self.replies = [r for r in came if r.metadata.reply_to_message_id not in asked]
        return [reply for reply in came if reply.metadata.reply_to_message_id in asked]


def made(number: str, node: int, to: str = "", content: Any = None) -> Message:
    """A message with the ids that a grid gives it."""
    metadata = Metadata(
        run_id=1,
        message_id=number,
        src_node_id=1,
        dst_node_id=node,
        reply_to_message_id=to,
        group_id="",
        created_at=1.5e9,
        ttl=60.0,
        message_type="train",
    )
    kind = "error" if isinstance(content, Error) else "content"
    return make_message(metadata, **{kind: content or RecordDict()})


def sent(mail: Mailbox, client: int = 0, node: int = OLD) -> Message:
    """A round's message to one client."""
    message = made(f"to {client} at {node}", node)
    mail.send({client: message})
    return message


def answer(message: Message, content: Any = None) -> Message:
    """The reply to a message."""
    return made("reply", 1, message.metadata.message_id, content)


def hear(mail: Mailbox, *replies: Message, in_round: bool = False) -> list[int]:
    """The clients whose replies are decided about."""
    return [*mail.hear(Answers([*replies]), None, in_round)]  # type: ignore[arg-type]


def at_work(mail: Mailbox) -> list[tuple[int, int]]:
    """Of two clients and two nodes."""
    unanswered, undecided = mail.unanswered.values(), {c for c, _ in mail.undecided}
    both = [(c, n) for c in (0, 1) for n in (OLD, NEW)]
    return [(c, n) for c, n in both if (c, n) in unanswered or c in undecided]


def test_a_client_without_a_reply_is_at_work_at_its_node() -> None:
    """Where it is at another node it has lost the message: it is asked again, as others are."""
    mail = Mailbox(Decides())
    message = sent(mail)
    assert at_work(mail) == []  # the round that asked still waits for it
    assert hear(mail) == [] and at_work(mail) == [(0, OLD)]
    sent(mail, client=1, node=NEW)
    assert hear(mail) == [] and at_work(mail) == [(0, OLD), (1, NEW)]
    assert hear(mail, answer(message)) == [0]
    assert at_work(mail) == [(1, NEW)]


def test_a_client_that_answered_in_its_round_is_not_at_work() -> None:
    mail = Mailbox(Decides())
    assert mail.client_of(answer(sent(mail))) == 0
    assert hear(mail) == [] and at_work(mail) == []


@pytest.mark.parametrize("times", [1, 2])
def test_a_client_is_at_work_until_its_late_reply_is_decided_about(times: int) -> None:
    """Wherever it is: its update counts later, and a second message would mix two."""
    mail = Mailbox(late := Decides(now=False))
    message = sent(mail)
    hear(mail)
    for _ in range(times):
        assert hear(mail, answer(message)) == []
        assert at_work(mail) == [(0, OLD), (0, NEW)]
    late.now = True
    assert hear(mail, in_round=True) == [0] and at_work(mail) == []


def test_a_client_whose_late_reply_is_an_error_is_not_at_work() -> None:
    mail = Mailbox(Decides(now=False))
    message = sent(mail)
    hear(mail)
    assert hear(mail, answer(message, Error(code=0, reason="it died"))) == []
    assert at_work(mail) == []

"""Updates that come when their round is over: kept for the next one, dropped, or counted."""

from dataclasses import dataclass

from flwr.app import Message

from strategies.channel.replies import answered_round
from strategies.channel.server_end import Late, ServerEnd


@dataclass(frozen=True)
class Hold:
    """The client takes the update back into its residual and sends it with its next one."""

    def come(self, end: ServerEnd, client: int, reply: Message, in_round: bool) -> bool:
        end.pass_over(client, reply, lost=_read(end, client, reply) and end.loses(client))
        return True


@dataclass(frozen=True)
class Drop:
    """The update is lost, and counted.

    Its client hears that the server is done with it, as of one that was applied, and so takes
    nothing back.
    """

    def come(self, end: ServerEnd, client: int, reply: Message, in_round: bool) -> bool:
        last = _read(end, client, reply)
        if last:
            end.applied[client] = end.sent_last[client][0]
        end.pass_over(client, reply, lost=last)
        return True


@dataclass(frozen=True)
class Count:
    """The round in which the update comes applies it."""

    def come(self, end: ServerEnd, client: int, reply: Message, in_round: bool) -> bool:
        if in_round:
            end.take(client, reply, late=True)
        return in_round


LATE: dict[str, Late] = {"hold": Hold(), "drop": Drop(), "count": Count()}
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

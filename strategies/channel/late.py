"""Updates that come when their round is over: kept for the next one, dropped, or counted."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from flwr.app import Message

from strategies.channel.replies import asked_in
from strategies.channel.server_end import ServerEnd


class Late(Protocol):
    """What becomes of an update of an earlier round.

    Attributes:
        counts: whether the round in which the update comes applies it.
    """

    counts: ClassVar[bool]

    def refuse(self, end: ServerEnd, client: int, reply: Message) -> bool:
        """Decides about an update that is not used, before its client is asked anew.

        Returns whether the update is lost.
        """
        ...


@dataclass(frozen=True)
class Hold:
    """The client takes the update back into its residual and sends it with its next one."""

    counts: ClassVar[bool] = False

    def refuse(self, end: ServerEnd, client: int, reply: Message) -> bool:
        return _read(end, client, reply) and end.loses(client)


@dataclass(frozen=True)
class Drop:
    """The update is lost, and counted.

    Its client hears that the server is done with it, as of one that was applied, and so takes
    nothing back.
    """

    counts: ClassVar[bool] = False

    def refuse(self, end: ServerEnd, client: int, reply: Message) -> bool:
        if not _read(end, client, reply):
            return False
        end.applied[client] = end.told[client][0]
        return True


@dataclass(frozen=True)
class Count(Hold):
    """The round in which the update comes applies it."""

    counts: ClassVar[bool] = True


LATE: dict[str, Late] = {"hold": Hold(), "drop": Drop(), "count": Count()}
"""By what users type."""


def _read(end: ServerEnd, client: int, reply: Message) -> bool:
    """Whether a reply answers the client's last message, which the client has then read.

    A client that was asked again has heard that the update was not used.
    """
    asked, (last, version) = asked_in(reply), end.told.get(client, (0, 0))
    if asked is None or asked != last:
        return False
    end.base[client] = version
    return True

"""Updates that come when their round is over: kept for the next one, dropped, or counted."""

from typing import Literal

from flwr.app import Message

from strategies.channel.replies import asked_in
from strategies.channel.server_end import ServerEnd

Late = Literal["hold", "drop", "count"]
"""``hold``: the client takes the update back into its residual and sends it with its next one.
``drop``: the update is lost, and counted. ``count``: the round in which it comes applies it."""


def refuse(end: ServerEnd, client: int, reply: Message, late: Late) -> bool:
    """Decides about an update that is not used; returns whether it is lost.

    The client of one that is dropped hears that the server is done with it, as of one that was
    applied; so it takes nothing back. It is decided before the client is asked anew.
    """
    asked, (last, version) = asked_in(reply), end.told.get(client, (0, 0))
    if asked is None or asked != last:  # it was asked again, and has heard that this was not used
        return False
    end.base[client] = version  # it has read what it was sent
    if late == "drop":
        end.applied[client] = asked
        return True
    return end.loses(client)

"""Bits of messages on the simulated clock: those of payloads, or all of them with ``framing=on``.

The columns ``wire`` and ``message`` of a client's round have the same bits.
"""

from flwr.app import Message

from fedsim.federation import ledger
from strategies import RoundTraffic
from strategies.channel.framing import Travel
from strategies.channel.payload import payload_bits
from strategies.channel.wire import of_reply


def bits_down(traffic: RoundTraffic, client: int, framing: bool) -> int:
    """The bits of the message to a client.

    Args:
        traffic: in which the client has been sent nothing else.
        client: its number.
        framing: whether the whole message counts, or its payload alone.
    """
    down = traffic.downlinks[client]
    if not framing:
        return ledger.charged_bits(down)
    return 8 * traffic.wire.requests[client].down - ledger.free_bits(down)


def bits_back(traffic: RoundTraffic, client: int, reply: Message, framing: bool) -> Travel:
    """The bits of a client's reply, up, and of what is sent down to it in answer.

    Up is the call for the message, too, which is booked with the message (``bits_down``).
    """
    if not framing:
        return Travel(0, payload_bits(reply))
    back = of_reply(reply)
    return Travel(8 * back.down, 8 * (back.up + traffic.wire.requests[client].up))

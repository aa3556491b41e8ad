"""Acknowledgements: a client keeps its last message until the server reports if it was applied.

A message to a client has the number of rounds since its last applied uplink. All uplinks that the
client has sent since then will never be applied. The server decides about an uplink before it asks
that client again, so a client waits for the acknowledgement of at most one uplink.

With ``applied`` (the sum of updates that moved the server's model), ``residual`` (the method's
memory) and ``pending`` (the last message, not applied), applied + residual + pending = trained at
any moment, even if messages are lost, late, sent twice or in another order. A method without a
memory cannot take back an unapplied message. That message is lost, and counted: by the server if
it has seen the message, and by the client, whose replies have the number of lost ones so far.
"""

from functools import lru_cache
from reprlib import repr
from typing import NamedTuple

import torch
from torch import Tensor

from compressors import Compressor, PayloadError, State, Tensors, decompress
from compressors.whole.feedback import take_back
from compressors.whole.memory import unnest
from strategies.channel.payload import APPLIED, OUTCOME, Settings, tied

LONGEST = 9  # bytes of a number at most: reading n of them takes n**2 steps


def varint(number: int) -> bytes:
    """A whole number from 0 up, of 63 bits at most.

    Example:
        >>> varint(1), varint(200).hex()
        (b'\\x01', 'c801')
    """
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(parts) + bytes([number])


def read_varint(data: bytes, at: int = 0) -> tuple[int, int]:
    """The number that begins at a place of ``data``, and the place behind it.

    Raises ``PayloadError`` where the data end within the number, or it is too long.

    Example:
        >>> read_varint(varint(200) + b"rest")
        (200, 2)
    """
    number = 0
    for i, byte in enumerate(data[at : at + LONGEST]):
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return number, at + i + 1
    raise PayloadError(f"a whole number is cut, or has more than {LONGEST} bytes")


CHANNEL = "channel"
"""In a message to a client: a number that another server, or another run, does not have."""

LIVES = 2**10
"""How many numbers a channel has: one of them each time that its server goes on after a kill."""

CHANNEL_KEPT, ROUND_KEPT, PAYLOAD_KEPT, LOST_KEPT, RETURNED_KEPT = (
    f"pending/{name}" for name in ("channel", "round", "payload", "lost", "returned")
)
"""In a client's memory."""


class OutOfOrder(RuntimeError):
    """A client is asked for a round that it has answered, or that is older than its last answer."""


def write_applied(round_number: int, applied: int) -> bytes:
    """How a message of this round says which uplink was applied last, in 7 bits per byte.

    ``applied``: the round of that uplink; 0: none was, of which nothing is said.

    Example:
        >>> write_applied(7, 6), write_applied(300, 100).hex(), write_applied(3, 0)
        (b'\\x01', 'c801', b'')
    """
    return varint(round_number - applied) if applied else b""


class Ack(NamedTuple):
    """The method's memory once the fate of the message before is known.

    ``applied``: whether that counts, or there was none; ``returned``: how many updates went back
    into the memory since the last one that was applied; ``lost``: how many updates of the client
    are lost so far.
    """

    uplink: State
    applied: bool = True
    returned: int = 0
    lost: int = 0


def write_outcome(ack: Ack) -> dict[str, bytes]:
    """The outcome of the client's previous message, as the side payload ``OUTCOME``.

    Nothing where all has gone well, else a whole number: twice how many updates of the client are
    lost so far, and 1 more where its last one went back into its memory; then how many went back
    since the last that was applied, where these are several.

    Example:
        >>> write_outcome(Ack({}, returned=1, lost=2)), write_outcome(Ack({}))
        ({'fate': b'\\x05'}, {})
        >>> write_outcome(Ack({}, returned=3))
        {'fate': b'\\x01\\x03'}
    """
    number, several = 2 * ack.lost + bool(ack.returned), ack.returned > 1
    return {OUTCOME: varint(number) + (varint(ack.returned) if several else b"")} if number else {}


def read_outcome(settings: Settings) -> tuple[bytes, int, int]:
    """The bytes of ``write_outcome``, how many updates went back, and how many are lost.

    Raises ``PayloadError`` where the bytes say no such numbers.
    """
    data = settings.get(OUTCOME, b"")
    if not isinstance(data, bytes):
        raise PayloadError(f"{OUTCOME} is {repr(data)}: it is a whole number, as bytes")
    if not data:
        return b"", 0, 0
    (number, end), back = read_varint(data), 1
    if number % 2 and end < len(data):
        back, end = read_varint(data, end)
    if end != len(data) or number // 2 >= 2**53 or not 0 < back < 2**53:
        raise PayloadError(
            f"{OUTCOME} is {repr(data)}: it is one whole number below 2**54, and a "
            "second one where it is odd and updates went back"
        )
    return data, back * (number % 2), number // 2


def pending(payload: bytes, settings: Settings, ack: Ack, keeps: bool) -> State:
    """The state that a client keeps of its answer to the message with these ``settings``.

    ``ack``: of the answer before, by which it is kept how many updates were lost or went back;
    ``keeps``: whether the payload is kept, too.
    """
    numbers = {ROUND_KEPT: settings["round"], CHANNEL_KEPT: settings.get(CHANNEL, 0)}
    if ack.lost:
        numbers[LOST_KEPT] = ack.lost
    if ack.returned:
        numbers[RETURNED_KEPT] = ack.returned
    memory = {name: stored_number(name, int(value)) for name, value in numbers.items()}
    if keeps:
        memory[PAYLOAD_KEPT] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
    return memory


@lru_cache(maxsize=256)
def stored_number(name: str, value: int) -> Tensor:
    """A number of a client's memory, by its name; clients with an equal one share the tensor."""
    return torch.tensor(value, device="cpu")  # wherever the caller's new tensors go


def channel_of(settings: Settings) -> int:
    """Which channel a message with these ``settings`` is of, however often its server was killed.

    Example:
        >>> channel_of({CHANNEL: 7 * LIVES}), channel_of({CHANNEL: 7 * LIVES + 1})
        (7, 7)
    """
    return int(settings.get(CHANNEL, 0)) // LIVES


def is_ahead(memory: State, settings: Settings) -> bool:
    """Whether a memory is of a round that a server has not seen the end of, and asks for again.

    It was killed in that round, or later, and goes on from a checkpoint before.

    Example:
        >>> memory = {ROUND_KEPT: torch.tensor(5), CHANNEL_KEPT: torch.tensor(7 * LIVES)}
        >>> [is_ahead(memory, {CHANNEL: 7 * LIVES + 1, "round": n}) for n in (5, 6)]
        [True, False]
        >>> is_ahead(memory, {CHANNEL: 7 * LIVES, "round": 5})  # a message that came twice
        False
    """
    last_channel, round_number = memory.get(CHANNEL_KEPT), settings.get("round")
    if last_channel is None or not isinstance(round_number, int):
        return False
    return int(last_channel) < settings.get(CHANNEL, 0) and int(memory[ROUND_KEPT]) >= round_number


def of_channel(memory: State, settings: Settings) -> State:
    """A client's memory where it belongs to the channel of a message's ``settings``, else nothing.

    Another server, or another run on the same nodes, has nothing to do with what was kept: its
    model was never trained on that, and a residual of before would move it.

    Example:
        >>> kept = {"uplink/residual/w": torch.ones(2), "pending/channel": torch.tensor(7 * LIVES)}
        >>> [len(of_channel(kept, {CHANNEL: n * LIVES})) for n in (7, 8)]
        [2, 0]
    """
    last_channel = memory.get(CHANNEL_KEPT)
    if last_channel is None:
        return memory
    same = int(last_channel) // LIVES == settings.get(CHANNEL, 0) // LIVES
    return memory if same else {}


def take_ack(uplink: Compressor, settings: Settings, memory: State, template: Tensors) -> Ack:
    """Reads in a message's ``settings`` whether the client's previous message was applied.

    If it was not, its content returns to the method's memory, which is of the same channel
    (``of_channel``).

    Raises ``OutOfOrder`` for a message that comes twice, or after one of a later round, or from a
    server that has been killed since and has asked the client again; ``PayloadError`` for bytes
    under ``APPLIED`` that are not a number.
    """
    state, applied, distance = unnest("uplink", memory), 0, settings.get(APPLIED)
    if isinstance(distance, bytes) and distance:
        applied = int(settings["round"]) - read_varint(distance)[0]
    if ROUND_KEPT not in memory:
        return Ack(state)
    answered, round_number = int(memory[ROUND_KEPT]), int(settings["round"])
    if int(memory[CHANNEL_KEPT]) > settings.get(CHANNEL, 0):
        raise OutOfOrder(f"round {round_number} was asked by a server that has gone on since")
    if round_number <= answered:
        raise OutOfOrder(
            f"round {round_number} was asked of a client that has answered round {answered}"
        )
    before, gone_back = int(memory.get(LOST_KEPT, 0)), int(memory.get(RETURNED_KEPT, 0))
    if applied >= answered:  # above: this is the memory before one that was damaged
        return Ack(state, lost=before)
    if PAYLOAD_KEPT not in memory:
        return Ack(state, applied=False, returned=gone_back, lost=before + 1)
    carried = decompress(tied(uplink, settings), memory[PAYLOAD_KEPT].numpy().tobytes(), template)
    back, lost = take_back(uplink, carried, placed(state, template))
    return Ack(back, False, gone_back + (not lost), before + bool(lost))


def placed(state: State, template: Tensors) -> State:
    """The memory where ``template`` is: checkpoints and Flower's contexts bring it to the CPU.

    Counters, which are whole numbers, stay where the program reads them.

    Example:
        >>> moved = placed({"residual/w": torch.ones(2)}, {"w": torch.ones(2, device="meta")})
        >>> moved["residual/w"].device
        device(type='meta')
    """
    device = next(iter(template.values())).device
    return {
        name: x if x.device == device or not x.is_floating_point() else x.to(device)
        for name, x in state.items()
    }

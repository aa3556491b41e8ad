"""Relayed messages: a client receives the others' messages of a round before, unchanged.

A relayed message begins with twice the receiver's own place among the round's senders, in client
order from 1 (0: it is not among them), and 1 more where the mean is by samples. Then, by samples,
the receiver's own number of samples, where it is among them. Then every other sender's message, in
client order: by samples its number of samples, its length, its bytes. All numbers have 7 bits per
byte. The receiver keeps its own message and does not receive it again, as in an allgather.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from compressors import Compressor, PayloadError, Sent, State, Tensors, mean_of
from compressors.base import unflatten
from compressors.bits import BitReader, BitWriter
from strategies.channel.acknowledge import read_varint, varint

CACHE_BYTES = 2**26  # bytes of means that a place of training keeps, or one mean


@dataclass(frozen=True)
class Relay:
    """A downlink: every client receives the others' messages and computes the mean itself.

    Nothing is encoded anew, so that the model loses nothing on its way down. Given to
    ``DelayedDSGD`` and to ``client_mod`` in the place of a compressor.

    Example:
        >>> from compressors import text
        >>> text(Relay())
        'relay'
    """

    codec_id: ClassVar[str] = "relay"
    keeps: ClassVar[tuple[str, ...] | None] = None
    needs_seed: ClassVar[bool] = False

    def init(self, template: Tensors) -> State:
        """No memory."""
        return {}

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        """Refused: there is no message of an update."""
        raise TypeError("relay passes on what clients sent, and encodes no update")

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        """Refused, as ``write``."""
        raise TypeError("relay passes on what clients sent, and decodes no update")


def join(payloads: Sequence[bytes], own_index: int | None, samples: Sequence[int] = ()) -> bytes:
    """The message to the sender at ``own_index`` of ``payloads``; None: to one who is not there.

    ``samples``: of each sender; none where the mean is uniform.

    Example:
        >>> joined = join([b"ab", b"c", b""], own_index=1)
        >>> joined, split(joined, b"c")
        (b'\\x04\\x02ab\\x00', ([b'ab', b'c', b''], []))
    """
    place = 0 if own_index is None else own_index + 1
    parts = [varint(2 * place + bool(samples))]
    for i, payload in enumerate(payloads):
        parts += [varint(samples[i])] if samples and (i != own_index) else []
        parts += [varint(len(payload)), payload] if i != own_index else []
    if samples and own_index is not None:
        parts.insert(1, varint(samples[own_index]))
    return b"".join(parts)


def includes_own(payload: bytes) -> bool:
    """Whether the receiver of a message that ``join`` made is among the senders."""
    return read_varint(payload)[0] > 1


def split(payload: bytes, own_payload: bytes) -> tuple[list[bytes], list[int]]:
    """All senders' payloads, in client order, and their samples; no samples: the mean is uniform.

    ``payload`` is what ``join`` made, and ``own_payload`` what the receiver sent, if that is among
    them.

    Raises ``PayloadError`` where the bytes do not say that.
    """
    first, at = read_varint(payload)
    place, counted = divmod(first, 2)
    messages, samples = list[bytes](), list[int]()
    if counted and place:
        own_samples, at = read_varint(payload, at)
    while at < len(payload):
        if counted:
            count, at = read_varint(payload, at)
            samples.append(count)
        length, at = read_varint(payload, at)
        messages.append(payload[at : at + length])
        at += length
    if at > len(payload) or place > len(messages) + 1 or not (messages or place):
        raise PayloadError("the relayed messages are cut, or fewer than they say")
    if place:
        messages.insert(place - 1, own_payload)
    if counted and place:
        samples.insert(place - 1, own_samples)
    return messages, samples


class Means:
    """The mean updates of relayed messages, equal to the server's bit for bit.

    Clients that share this object receive the same messages, each without its own. The mean of
    each of the last rounds is computed once for all of them.
    """

    def __init__(self) -> None:
        self._means: dict[tuple[tuple[bytes, ...], tuple[int, ...]], dict[str, Tensor]] = {}

    def of(
        self, payload: bytes, own_payload: bytes, uplink: Compressor, template: Tensors
    ) -> dict[str, Tensor]:
        """The mean update of a round, of what ``join`` made and the receiver's own message.

        It is computed on the CPU, as the server's is. Both add with torch's own kernel. The last
        bit can differ between processors that round a product before the addition and others. The
        ``uplink`` is the same whenever this is called.
        """
        messages, samples = split(payload, own_payload)
        if samples and not all(samples):
            raise PayloadError("a relayed message has no samples: everyone trains on one at least")
        key = tuple(messages), tuple(samples)
        if key not in self._means:
            shapes = {name: torch.empty_like(x, device="cpu") for name, x in template.items()}
            weights = samples or [1] * len(messages)
            size = sum(4 * x.numel() for x in shapes.values())
            while self._means and (len(self._means) + 1) * size > CACHE_BYTES:
                self._means.pop(next(iter(self._means)))
            mean = mean_of(uplink, messages, weights, shapes)
            self._means[key] = unflatten(mean, shapes)
        return self._means[key]
